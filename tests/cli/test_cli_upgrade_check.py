"""`rewound upgrade-check`: its sources, its output, its exit codes, and what it says about wrong use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

import rewound
from rewound.cli.main import main
from rewound.journal.log import Journal
from rewound.testing.fixture.rewound import Rewound
from tests.cases import cases

SCALER = """\
apiVersion: autoscaling/v2beta2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}}
"""
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n"
GONE = (
    "autoscaling/v2beta2 HorizontalPodAutoscaler is not served; 1.25 was the last version with it; "
    "use autoscaling/v2"
)
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  names: {kind: Foo, plural: foos}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"""
FOO = "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: f, finalizers: [plain]}\n"

Output = pytest.CaptureFixture[str]


def check(capsys: Output, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["upgrade-check", "--to", "1.33", *arguments, "-o", "json"])
    return code, orjson.loads(capsys.readouterr().out)


def test_program_prints_findings_and_who(tmp_path: Path) -> None:
    """As a process, with the exit code that CI sees."""
    file = tmp_path / "web.yaml"
    file.write_text(f"{SCALER}---\n{MAP}")
    command = [sys.executable, "-m", "rewound", "upgrade-check", "--to", "1.33", "--file", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert result.stdout == (
        "NOT SERVED ANY MORE in Kubernetes 1.33\n"
        f"  {GONE}\n"
        f"      HorizontalPodAutoscaler shop/web  in {file}\n"
        "\n"
        "Kubernetes 1.25 to 1.33: 2 objects and 0 requests checked; 1 removed\n"
    )


def test_nothing_to_report(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "map.yaml"
    file.write_text(MAP)
    assert main(["upgrade-check", "--to", "1.36", "--from", "1.35", "--file", str(file)]) == 0
    said = capsys.readouterr().out
    assert said == "Kubernetes 1.35 to 1.36: 1 object and 0 requests checked; nothing would change\n"


def test_definitions_apply_to_all_files(tmp_path: Path, capsys: Output) -> None:
    """Wherever they are; `--all` adds what is so already, and `-n` selects a namespace."""
    (tmp_path / "1.yaml").write_text(FOO)
    (tmp_path / "2.yaml").write_text(f"{CRD}---\n{MAP}wrong: 1\n")
    code, document = check(capsys, "--file", str(tmp_path))
    assert code == 0
    [finding] = document["findings"]
    assert (finding["severity"], finding["kind"], finding["name"]) == ("warned", "Foo", "f")
    assert finding["file"] == str(tmp_path / "1.yaml")
    code, document = check(capsys, "--all", "--file", str(tmp_path))
    assert [(one["severity"], one.get("already")) for one in document["findings"]] == [
        ("pruned", True),
        ("warned", None),
    ]
    code, document = check(capsys, "-n", "shop", "--file", str(tmp_path))
    assert (document["objects"], document["findings"]) == (1, [])


def test_many_objects_with_one_finding(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("---\n".join(SCALER.replace("name: web, n", f"name: web{one}, n") for one in range(12)))
    assert main(["upgrade-check", "--to", "1.33", "--file", str(file)]) == 1
    said = capsys.readouterr().out
    assert said.count("HorizontalPodAutoscaler shop/web") == 10
    assert "      and 2 more; -o json has all\n" in said
    assert check(capsys, "--file", str(file))[1]["counts"]["removed"] == 12


@pytest.fixture(scope="module")
def server() -> Iterator[Rewound]:
    """A server of 1.25 in which helm has created a scaler."""
    with rewound.start(kubernetes="1.25") as running:
        path = "/apis/autoscaling/v2beta2/namespaces/default/horizontalpodautoscalers?fieldManager=helm"
        target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
        running.request(
            "POST", path, {"metadata": {"name": "web"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
        )
        yield running


@pytest.mark.holds_loop("the command compares objects in an event loop of its own, which serves no one")
def test_server_folder_and_file(server: Rewound, tmp_path: Path, capsys: Output) -> None:
    """They find the same in the stored objects; the journal also has the user, and the server its metrics."""
    file = tmp_path / "export.journal.gz"
    assert main(["export", str(file), "--data-dir", str(server.data_dir)]) == 0
    capsys.readouterr()
    sources = {
        "server": ["--kubeconfig", str(server.kubeconfig)],
        "folder": ["--data-dir", str(server.data_dir)],
        "file": ["--file", str(file)],
    }
    for source, flags in sources.items():
        code, document = check(capsys, *flags)
        removed = [one for one in document["findings"] if one["severity"] == "removed"]
        assert code == 1, source
        assert document["from"] == "1.25"
        stored = removed.pop()
        assert stored["message"] == f"written by helm: {GONE}"
        assert stored["by"] == ("helm" if source == "server" else "admin (helm)")
        if source == "server":
            [counted] = removed
            assert (counted["resource"], counted["file"]) == ("horizontalpodautoscalers", "/metrics")
        else:
            assert removed == []


def test_recording_of_a_later_version(tmp_path: Path, capsys: Output) -> None:
    with closing(Journal.open(tmp_path / "journal", dialect="kubernetes", kubernetes="1.34")):
        pass
    assert main(["upgrade-check", "--to", "1.33", "--data-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == "rewound: --to: 1.33 is older than 1.34, the present version; give 1.34 or a later one\n"


def audit_event(agent: str, version: str) -> bytes:
    what = {"resource": "horizontalpodautoscalers", "apiGroup": "autoscaling", "apiVersion": version}
    time = "2026-11-18T00:00:00.000000Z"
    return orjson.dumps(
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "stage": "ResponseComplete",
            "verb": "list",
            "user": {"username": "alice"},
            "userAgent": agent,
            "objectRef": what,
            "responseStatus": {"code": 200},
            "requestReceivedTimestamp": time,
            "stageTimestamp": time,
        }
    )


def test_audit_log_counts_requests_by_client(tmp_path: Path, capsys: Output) -> None:
    log = tmp_path / "audit.log"
    lines = [audit_event("old/1", "v2beta2")] * 3 + [audit_event("new/1", "v2"), b"junk"]
    log.write_bytes(b"\n".join(lines))
    assert main(["upgrade-check", "--to", "1.33", "--audit-log", str(log)]) == 1
    said = capsys.readouterr()
    assert f"  {GONE}\n      list horizontalpodautoscalers  by alice (old/1), 3 times\n" in said.out
    assert "0 objects and 4 requests checked; 1 removed\n" in said.out
    assert said.err.startswith(f"rewound: 1 lines or events of {log} are left out: it is no JSON")
    code, document = check(capsys, "--audit-log", str(log))
    [finding] = document["findings"]
    assert (code, finding["count"], finding["by"]) == (1, 3, "alice (old/1)")


@cases(
    "arguments, problem",
    [
        ([], "the following arguments are required: --to"),
        (["--to", "1.99"], "--to: there is no Kubernetes version '1.99' here; give one from 1.25 to 1.36"),
        (["--to", "1.33", "--file"], "--file: expected at least one argument"),
        (["--to", "1.33", "--file", "x", "--data-dir", "y"], "--data-dir: names what to check, and so does"),
        (["--to", "1.33", "--file", "x", "--server", "https://y"], "--server: names what to check, and so"),
        (["--to", "1.29", "--from", "1.33", "--file", "x"], "--to: 1.29 is older than 1.33"),
        (["--to", "1.33", "--feature-gates", "Nope=true", "--file", "x"], "--feature-gates: there is no"),
        (["--to", "1.33", "--runtime-config", "x=y", "--file", "x"], "--runtime-config: "),
    ],
)
def test_wrong_use(arguments: list[str], problem: str, capsys: Output) -> None:
    assert main(["upgrade-check", *arguments]) == 2
    assert problem in capsys.readouterr().err


@cases(
    "arguments, problem",
    [
        (["--file", "missing.yaml"], "missing.yaml: No such file or directory; check the path"),
        (["--data-dir", "missing"], "missing"),
        (["--audit-log", "no.log"], "--audit-log: no.log is not an audit log in JSON: it is no JSON"),
    ],
)
def test_unreadable_sources(arguments: list[str], problem: str, capsys: Output) -> None:
    Path("no.log").write_text("text\n")
    try:
        assert main(["upgrade-check", "--to", "1.33", *arguments]) == 1
    finally:
        os.remove("no.log")
    assert problem in capsys.readouterr().err


def test_dialect_of_the_documents_has_no_other_version(tmp_path: Path, capsys: Output) -> None:
    with closing(Journal.open(tmp_path / "journal")):
        pass
    assert main(["upgrade-check", "--to", "1.33", "--data-dir", str(tmp_path)]) == 2
    assert "--to: the dialect cluster is always Kubernetes 1.25" in capsys.readouterr().err
