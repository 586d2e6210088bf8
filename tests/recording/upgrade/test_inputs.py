"""What an upgrade is rehearsed with: manifests in files and folders, and the requests of audit logs."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from rewound.client.errors import Failure
from rewound.recording.manifests import CREATE, UPDATE, Manifests
from rewound.recording.upgrade.inputs import AuditRequests, Used, is_journal, manager_of
from tests.cases import cases

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
LIST = b'{"apiVersion":"v1","kind":"ConfigMapList","items":[{"metadata":{"name":"c"}}]}'


def names(paths: list[Path]) -> list[str]:
    return [one.document["metadata"]["name"] for one in Manifests().read(paths)]


def test_documents_of_files_and_folders(tmp_path: Path) -> None:
    """Several documents of YAML, JSON, a List with items without types, and compressed files."""
    (tmp_path / "a.yaml").write_text(f"# first\n---\n{MAP % 'a'}--- # next\n{MAP % 'b'}---\n\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "c.json").write_bytes(LIST)
    (tmp_path / "notes.txt").write_text("none")
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress((MAP % "d").encode()))
    assert names([tmp_path, packed]) == ["a", "b", "c", "d"]
    [_, _, item] = Manifests().read([tmp_path])
    assert item.document["kind"] == "ConfigMap"
    assert (item.how, item.where) == (CREATE, str(tmp_path / "deep" / "c.json"))
    assert not is_journal(packed) and not is_journal(tmp_path)


@cases(
    "content, problem",
    [
        ("", "has no object; name a file with manifests, or a recording"),
        ("a: 1\n", "a document has no apiVersion and kind; is it a manifest?"),
        ("---\n---\na: {{ .Values.a }}\n", "the document at line 2 is no YAML: "),
    ],
)
def test_file_without_objects_is_refused(content: str, problem: str, tmp_path: Path) -> None:
    """Named, it is an error; in a folder it is left out, with the reason."""
    (tmp_path / "good.yaml").write_text(MAP % "a")
    file = tmp_path / "wrong.yaml"
    file.write_text(content)
    with pytest.raises(Failure, match=f"--file: {file}") as error:
        Manifests().read([file])
    assert problem in str(error.value)
    manifests = Manifests()
    assert len(manifests.read([tmp_path])) == 1
    assert problem in manifests.left_out[str(file)]


def test_folder_without_manifests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"has no files that end in \.yaml, \.yml, \.json; name another"):
        Manifests().read([tmp_path])


def event(verb: str, code: int = 200, **more: Any) -> dict[str, Any]:
    what = {"resource": "horizontalpodautoscalers", "apiGroup": "autoscaling", "apiVersion": "v2beta2"}
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": "/apis",
        "user": {"username": "alice"},
        "userAgent": "helm/3",
        "objectRef": what,
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": "2026-11-18T00:00:00.000000Z",
        "stageTimestamp": "2026-11-18T00:00:00.000000Z",
        **more,
    }


def used(tmp_path: Path, *events: Any) -> tuple[list[Used], AuditRequests]:
    log = tmp_path / "audit.log.gz"
    log.write_bytes(gzip.compress(b"\n".join(map(orjson.dumps, events))))
    reading = AuditRequests()
    return list(reading.read(log)), reading


def test_requests_of_an_audit_log(tmp_path: Path) -> None:
    """Reads count too; bodies only if they were accepted; patches and subresources without their bodies."""
    sent = {"apiVersion": "autoscaling/v2beta2", "kind": "HorizontalPodAutoscaler"}
    status = {**event("update")["objectRef"], "subresource": "status"}
    found, reading = used(
        tmp_path,
        event("list"),
        event("create", 201, requestObject=sent),
        event("update", requestObject=sent),
        event("create", 422, requestObject=sent),
        event("patch", requestObject=sent),
        event("update", requestObject=sent, objectRef=status),
        event("list", 401),
        event("list", userAgent="rewound/1"),
        event("watch", stage="RequestReceived"),
        {"kind": "Event"},
    )
    assert [(one.verb, one.document, one.how) for one in found] == [
        ("list", None, CREATE),
        ("create", sent, CREATE),
        ("update", sent, UPDATE),
        ("create", None, CREATE),
        ("patch", None, CREATE),
        ("update", None, UPDATE),
    ]
    assert {one.who for one in found} == {"alice (helm/3)"}
    assert found[-1].subresource == "status"
    assert reading.unreadable == 1 and "apiVersion" in reading.problem


def test_manager_of_the_last_write_that_was_not_of_the_status() -> None:
    entries = [
        {"manager": "kubectl", "time": "2026-01-02T00:00:00Z"},
        {"manager": "helm", "time": "2026-01-01T00:00:00Z"},
        {"manager": "kubelet", "time": "2026-01-03T00:00:00Z", "subresource": "status"},
    ]
    assert manager_of({"metadata": {"managedFields": entries}}) == "kubectl"
    assert manager_of({"metadata": None}) == ""
