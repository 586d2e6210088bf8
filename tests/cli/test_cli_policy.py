"""`rewound policy test`: policies on the writes of a data folder, on manifests and on the objects of a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import rewound
from rewound.cli.main import main
from rewound.testing.fixture.rewound import Rewound
from tests.cases import cases

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  matchConditions:
  - {name: no-params, expression: "!object.metadata.name.startsWith('limit')"}
  validations:
  - expression: "int(object.data.size) <= int(params.data.max)"
    messageExpression: "'more than ' + params.data.max"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec:
  policyName: small
  validationActions: [Deny]
  paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}
"""
LIMITS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits}\ndata: {max: '5'}\n"
KEPT = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: kept}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: ["", "example.com"], apiVersions: ["*"], operations: [DELETE, CREATE], resources: ["*"]}
  validations:
  - {expression: "request.operation != 'DELETE' || request.userInfo.username == 'nobody'", message: keep it}
  - {expression: "request.operation != 'CREATE' || !has(object.spec) || object.spec.small", message: too large}
"""
LABELS = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: labels}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{metadata: Object.metadata{labels: {'by': request.userInfo.username}}}"
"""
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  names: {kind: Foo, plural: foos}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {small: {type: boolean}}}}}}
"""
FOO = "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: f}\nspec: {small: false}\n"

MAPS = "/api/v1/namespaces/default/configmaps"

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def server() -> Iterator[Rewound]:
    """Sizes 3 and 7 while the limit in the cluster is 2, then 9 while it is 10."""
    with rewound.start(kubernetes="1.36") as running:
        write(running, "a", {"size": "3"})
        write(running, "limits", {"max": "2"})
        write(running, "b", {"size": "7"})
        running.request("PUT", f"{MAPS}/limits", config_map("limits", {"max": "10"}))
        write(running, "c", {"size": "9"})
        running.request("DELETE", f"{MAPS}/a")
        yield running


def config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def write(server: Rewound, name: str, data: dict[str, str]) -> None:
    server.request("POST", f"{MAPS}?fieldManager=helm", config_map(name, data))


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


def result_of(capsys: Output, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["policy", "test", *arguments, "-o", "json"])
    return code, orjson.loads(capsys.readouterr().out)


def denied(document: dict[str, Any]) -> dict[str, list[str]]:
    return {
        one["message"]: [f"{write['verb']} {write['name']} {write['by']}" for write in one["writes"]]
        for one in document["findings"]
        if one["action"] == "deny"
    }


def test_each_write_meets_the_parameters_of_its_time(server: Rewound, policy: Path, capsys: Output) -> None:
    """The object of the parameters did not exist at first; an export has the same."""
    expected = {
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction": [
            "create a admin (helm)",
            "create limits admin (helm)",
        ],
        "more than 2": ["create b admin (helm)"],
    }
    export = policy.parent / "export.journal.gz"
    assert main(["export", str(export), "--data-dir", str(server.data_dir)]) == 0
    capsys.readouterr()
    for source in (["--data-dir", str(server.data_dir)], ["--file", str(export)]):
        code, document = result_of(capsys, str(policy), *source)
        found = denied(document)
        found = {text: [one for one in writes if "admin" in one] for text, writes in found.items()}
        assert (code, {text: writes for text, writes in found.items() if writes}) == (1, expected)
        [cost] = document["policies"]
        assert cost["name"] == "small" and cost["evaluations"] >= 3 and cost["highestCost"] > 5
    code, document = result_of(capsys, str(policy), "--data-dir", str(server.data_dir), "--since", "now")
    assert (code, document["findings"]) == (0, [])


def test_parameters_that_are_given_and_the_text(server: Rewound, policy: Path, capsys: Output) -> None:
    """A policy without a binding gets one."""
    policy.write_text(f"{POLICY}---\n{LIMITS}---\n{KEPT}")
    arguments = ["policy", "test", str(policy), "--data-dir", str(server.data_dir), "-n", "default"]
    assert main(arguments) == 1
    said = capsys.readouterr()
    assert said.out.startswith("DENIED\n  small (binding everywhere): ")
    assert "  small (binding everywhere): more than 5\n      2 writes, by admin (helm) 2\n" in said.out
    assert "  kept: keep it\n      1 write, by admin" in said.out
    assert said.out.endswith(" denied\n")
    assert "ValidatingAdmissionPolicy kept has no binding: it is tested for everything" in said.err


def test_objects_of_a_server_and_manifests_are_creates(
    server: Rewound, policy: Path, tmp_path: Path, capsys: Output
) -> None:
    policy.write_text(f"{POLICY}---\n{LIMITS}")
    code, document = result_of(capsys, str(policy), "--kubeconfig", str(server.kubeconfig), "-n", "default")
    assert [one.split()[:2] for one in denied(document)["more than 5"]] == [["create", "b"], ["create", "c"]]
    policy.write_text(KEPT)
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "1.yaml").write_text(FOO)
    (manifests / "2.yaml").write_text(f"{CRD}---\n{LIMITS}")
    code, document = result_of(capsys, str(policy), "--file", str(manifests))
    assert (code, list(denied(document))) == (1, ["too large"])
    assert document["writes"] == 3


def test_changes_of_mutating_policies(server: Rewound, policy: Path, capsys: Output) -> None:
    policy.write_text(LABELS)
    code, document = result_of(capsys, str(policy), "--data-dir", str(server.data_dir), "-n", "default")
    [finding] = [one for one in document["findings"] if "admin (helm)" in one["by"]]
    assert (code, finding["action"], finding["policy"]) == (0, "change", "labels")
    assert [(one["name"], one["changes"]) for one in finding["writes"] if one["by"] == "admin (helm)"] == [
        (name, ['+ metadata.labels {"by":"admin"}']) for name in ("a", "limits", "b", "c")
    ]


@cases(
    "text, arguments, code, problem",
    [
        (KEPT, ["--since", "1h", "--file", "policy.yaml"], 2, "--since: only journals have a past"),
        (
            KEPT,
            ["--kubernetes-version", "1.25", "--file", "policy.yaml"],
            2,
            "1.25 has no policies; name 1.30",
        ),
        (
            KEPT,
            ["--file", "policy.yaml", "--data-dir", "y"],
            2,
            "--data-dir: names what to test, and so does",
        ),
        (LIMITS, ["--file", "policy.yaml"], 1, "policy.yaml has no ValidatingAdmissionPolicy or Mutating"),
        (
            KEPT.replace("request.operation !=", "request.verb !="),
            ["--file", "policy.yaml"],
            1,
            "policy.yaml: ValidatingAdmissionPolicy kept: spec.validations[0].expression: Invalid value",
        ),
        (POLICY.partition("---")[0], ["--file", "policy.yaml"], 1, "small has parameters and no binding"),
    ],
)
def test_wrong_use(text: str, arguments: list[str], code: int, problem: str, capsys: Output) -> None:
    Path("policy.yaml").write_text(text)
    try:
        assert main(["policy", "test", "policy.yaml", *arguments]) == code
        assert problem in capsys.readouterr().err
    finally:
        Path("policy.yaml").unlink()
