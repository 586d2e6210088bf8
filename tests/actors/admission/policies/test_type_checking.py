"""Type checks of policies: the texts of warnings, and which kinds a check knows."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.admission.policies.type_checking import type_warnings
from rewound.actors.kinds.built_in import built_in
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release

MANY = (
    "pods services secrets configmaps nodes endpoints namespaces podtemplates limitranges resourcequotas "
    "serviceaccounts"
)
MANY_KINDS = (
    "ConfigMap Endpoints LimitRange Namespace Node Pod PodTemplate ResourceQuota Secret ServiceAccount"
)


def policy(*expressions: str, rules: Any = ((("apps",), ("deployments",)),), **spec: Any) -> Object:
    constraints = [
        {"apiGroups": list(groups), "apiVersions": ["v1"], "resources": list(resources), "operations": ["*"]}
        for groups, resources in rules
    ]
    validations = [{"expression": one} for one in expressions]
    return {"spec": {"matchConstraints": {"resourceRules": constraints}, "validations": validations, **spec}}


def warnings(of: Object, version: str = "1.36") -> dict[str, str]:
    release = choose_release(version)
    found = type_warnings(of, built_in(KUBERNETES, release), KUBERNETES, release.features)
    return {one["fieldRef"]: one["warning"] for one in found}


def test_warning_names_the_kind_and_the_place() -> None:
    checked = policy("object.spec.replicas > 1", "object.spec.replicas > '1'")
    checked["spec"]["validations"][0]["messageExpression"] = "object.spec.nothing"
    assert warnings(checked) == {
        "spec.validations[0].messageExpression": "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field "
        "'nothing'\n | object.spec.nothing\n | ...........^\n",
        "spec.validations[1].expression": "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload "
        "for '_>_' applied to '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n",
    }


def kinds_in(text: str) -> list[str]:
    return [line.partition(": ERROR")[0] for line in text.splitlines() if "Kind=" in line]


@pytest.mark.parametrize(
    ("rules", "kinds"),
    [
        ([(("", "apps"), ("pods", "deployments"))], ["/v1, Kind=Pod", "apps/v1, Kind=Deployment"]),
        # Without a group, resources of all groups count.
        ([(("",), ("events",))], ["/v1, Kind=Event", "events.k8s.io/v1, Kind=Event"]),
        ([(("",), ("Pod", "pods/status", "nothing"))], ["/v1, Kind=Pod"]),
        ([(("*",), ("pods",)), (("",), ("*",))], []),
        ([(("",), MANY.split())], [f"/v1, Kind={one}" for one in MANY_KINDS.split()]),
    ],
)
def test_kinds_are_those_that_rules_name(rules: Any, kinds: list[str]) -> None:
    found = warnings(policy("object.nothing", rules=rules))
    assert kinds_in(found.get("spec.validations[0].expression", "")) == kinds


@pytest.mark.parametrize(
    "text",
    [
        "object.kind == 'Pod' && object.metadata.labels['a'] == 'b'",
        "object.spec.containers.all(c, c.livenessProbe.httpGet.port == 1 || c.name == variables.text)",
        "variables.containers[0].nothing == variables.spec.nothing",
        "params.data.x == oldObject.metadata.name",
        "object.metadata.creationTimestamp < timestamp('2024-01-01T00:00:00Z')",
    ],
)
def test_valid_expressions(text: str) -> None:
    variables = {"text": "'a'", "containers": "object.spec.containers", "spec": "object.spec"}
    spec = {
        "variables": [{"name": name, "expression": one} for name, one in variables.items()],
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    }
    assert not warnings(policy(text, rules=[(("",), ("pods",))], **spec))


def test_parameters_of_an_unknown_kind_have_no_type_since_1_36() -> None:
    checked = policy("params.x == 1", paramKind={"apiVersion": "example.com/v1", "kind": "Unknown"})
    assert not warnings(checked)
    assert "undeclared reference to 'params'" in str(warnings(checked, "1.35"))


@pytest.mark.parametrize("field", ["spec.overhead", "spec.containers[0].resources.limits"])
def test_quantities_do_not_exist_for_a_check(field: str) -> None:
    checked = warnings(policy(f"has(object.{field})", rules=[(("",), ("pods",))]))
    assert "undefined field" in checked["spec.validations[0].expression"]
