"""`rewound import audit` reads the exports of GKE, EKS and AKS by their published formats, in any layout of JSON."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import orjson
import pytest

from rewound.cli.main import main
from rewound.recording.record import audit_exports
from rewound.recording.record.audit_exports import audit_lines
from rewound.recording.record.requests import Request, Unreadable, requests_in
from tests.recording.record.test_import_command import audit, config_map, imported


def read(data: bytes) -> tuple[list[Request], list[str]]:
    """The requests in a file, and why other lines were left out."""
    found: list[Request] = []
    problems: list[str] = []
    for line in audit_lines(io.BytesIO(data)):
        try:
            found += requests_in(line)
        except Unreadable as error:
            problems.append(str(error))
    return found, problems


def pretty(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)


def event(number: int, **more: Any) -> dict[str, Any]:
    return audit(
        "update", number, f"web-{number}", responseObject=config_map(number, "a", f"web-{number}"), **more
    )


def gke(method: str, resource: str, **more: Any) -> dict[str, Any]:
    """An entry of Cloud Logging."""
    return {
        "protoPayload": {
            "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
            "authenticationInfo": {"principalEmail": "alice@example.com"},
            "authorizationInfo": [{"granted": True, "permission": method, "resource": resource}],
            "methodName": method,
            "requestMetadata": {"callerIp": "35.235.240.1", "callerSuppliedUserAgent": "kubectl/v1.30.1"},
            "resourceName": resource,
            "serviceName": "k8s.io",
            "status": {"code": 0},
            **more,
        },
        "insertId": "7e67c7e4-4680-4597-b0fe-ba16f87baeee",
        "resource": {"type": "k8s_cluster", "labels": {"cluster_name": "shop", "location": "europe-west1"}},
        "timestamp": "2026-11-17T10:00:07.304506Z",
        "labels": {"authorization.k8s.io/decision": "allow"},
        "logName": "projects/shop/logs/cloudaudit.googleapis.com%2Factivity",
        "operation": {"id": "7e67c7e4", "producer": "k8s.io", "first": True, "last": True},
        "receiveTimestamp": "2026-11-17T10:00:08.502612236Z",
    }


def aks(given: dict[str, Any]) -> dict[str, Any]:
    """A record of a diagnostic setting."""
    return {
        "operationName": "Microsoft.ContainerService/managedClusters/diagnosticLogs/Read",
        "category": "kube-audit-admin",
        "ccpNamespace": "5f1c0bd8",
        "resourceId": "/SUBSCRIPTIONS/1/RESOURCEGROUPS/SHOP/PROVIDERS/MICROSOFT.CONTAINERSERVICE/MANAGEDCLUSTERS/SHOP",
        "properties": {"log": orjson.dumps(given).decode(), "stream": "stdout", "pod": "kube-apiserver-1"},
        "time": "2026-11-17T10:00:07.0000000Z",
        "Cloud": "AzureCloud",
    }


EVENTS = [event(1), event(2), event(3)]
TEXTS = [orjson.dumps(one).decode() for one in EVENTS]
FORWARDED = {
    "messageType": "DATA_MESSAGE",
    "owner": "111111111111",
    "logGroup": "/aws/eks/shop/cluster",
    "logStream": "kube-apiserver-audit-1",
    "subscriptionFilters": ["all"],
    "logEvents": [{"id": "1", "timestamp": 1, "message": text} for text in TEXTS],
}
FILTERED = {
    "events": [
        {"logStreamName": "kube-apiserver-audit-1", "timestamp": 1, "message": text, "eventId": "1"}
        for text in TEXTS
    ],
    "searchedLogStreams": [],
}
INSIGHTS = {
    "results": [
        [{"field": "@timestamp", "value": "x"}, {"field": "@message", "value": text}] for text in TEXTS
    ],
    "statistics": {"recordsMatched": 3.0},
    "status": "Complete",
}
TABLE = [
    {
        "TenantId": "1",
        "TimeGenerated": one["stageTimestamp"],
        "Level": one["level"],
        "AuditId": one["auditID"],
        "Stage": one["stage"],
        "RequestUri": one["requestURI"],
        "Verb": one["verb"],
        "User": orjson.dumps(one["user"]).decode(),
        "SourceIps": orjson.dumps(one["sourceIPs"]).decode(),
        "UserAgent": one["userAgent"],
        "ObjectRef": one["objectRef"],
        "ResponseStatus": orjson.dumps(one["responseStatus"]).decode(),
        "RequestObject": "skipped-too-big-size-object",
        "ResponseObject": one["responseObject"],
        "RequestReceivedTime": one["requestReceivedTimestamp"],
        "StageReceivedTime": one["stageTimestamp"],
        "Type": "AKSAuditAdmin",
    }
    for one in EVENTS
]
EVENT_LIST = {
    "kind": "EventList",
    "apiVersion": "audit.k8s.io/v1",
    "metadata": {},
    "items": [
        {name: value for name, value in one.items() if name not in ("kind", "apiVersion")} for one in EVENTS
    ],
}


def lines(*values: Any) -> bytes:
    return b"".join(orjson.dumps(one) + b"\n" for one in values)


LAYOUTS = {
    "lines": lines(*EVENTS),
    "array": orjson.dumps(EVENTS),
    "pretty array": pretty(EVENTS),
    "array of lines": b"[\n" + b",\n".join(map(orjson.dumps, EVENTS)) + b"\n]\n",
    "pretty event list": pretty(EVENT_LIST),
    "pretty objects": b"\n".join(map(pretty, EVENTS)),
    "objects without lines": b"".join(map(orjson.dumps, EVENTS)),
    "byte order mark": b"\xef\xbb\xbf" + lines(*EVENTS).replace(b"\n", b"\r\n"),
    "EKS to S3": b"".join(b"2026-11-17T10:00:07.123Z " + text.encode() + b"\n" for text in TEXTS),
    "EKS filter-log-events": pretty(FILTERED),
    "EKS filter-log-events on a line": orjson.dumps(FILTERED),
    "EKS Firehose": orjson.dumps(FORWARDED) + orjson.dumps({**FORWARDED, "logEvents": []}),
    "EKS Insights": pretty(INSIGHTS),
    "AKS blob": lines(*map(aks, EVENTS)),
    "AKS event hub": orjson.dumps({"records": [aks(one) for one in EVENTS]}),
    "AKS pretty event hub": pretty({"records": [aks(one) for one in EVENTS]}),
    "AKS table": pretty(TABLE),
    "AKS AzureDiagnostics": lines(*({"Category": "kube-audit", "log_s": text} for text in TEXTS)),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("chunk", [1 << 20, 7])
def test_layouts(name: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_exports, "_CHUNK", chunk)
    found, problems = read(LAYOUTS[name])
    assert problems == []
    assert [(one.audit_id, one.user, one.name, one.returned_version) for one in found] == [
        (f"id-{number}", "alice", f"web-{number}", str(number)) for number in (1, 2, 3)
    ]
    assert found[0].source == "kubectl/v1.25.0 (linux/amd64) from 10.0.0.7"


def test_all_of_them_in_one_file() -> None:
    found, problems = read(b"\n".join(LAYOUTS[name] for name in LAYOUTS if name != "byte order mark"))
    assert problems == []
    assert len(found) == 3 * (len(LAYOUTS) - 1)


def test_other_logs_in_an_export_are_counted() -> None:
    other = {"message": "I1117 10:00:00 controller.go:1] started"}
    data = lines({"logEvents": [other, {"message": TEXTS[0]}, other]}) + b"free text\n" + lines({"a": 1}, [1])
    found, problems = read(data + lines(EVENTS[1]))
    assert [one.audit_id for one in found] == ["id-1", "id-2"]
    assert len(problems) == 5


def test_a_value_that_is_cut_short_takes_no_other_with_it() -> None:
    first, second, third = (orjson.dumps(one) for one in EVENTS)
    found, problems = read(first[:-50] + b"\n" + second + b"\n" + pretty(EVENTS[2])[:-5] + b"\n" + third)
    assert [one.audit_id for one in found] == ["id-2", "id-3"]
    assert len(problems) == 2
    for cut in range(1, len(first)):
        found, _ = read(first[:cut] + b"\n" + second + b"\n")
        assert [one.audit_id for one in found][-1:] == ["id-2"]


def test_a_large_list_is_never_held_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_exports, "_CHUNK", 1000)
    monkeypatch.setattr(audit_exports, "LONGEST_LINE", 10_000)
    for data in (
        orjson.dumps({"x": 1, "records": [aks(event(1))] * 200}),
        orjson.dumps([aks(event(1))] * 200),
    ):
        found, problems = read(data)
        assert (len(found), problems) == (200, [])
    for endless in (b'{"a":"' + b"x" * 50_000, b'{"records":[' + b"[" * 50_000, b"x" * 50_000):
        found, problems = read(endless + b"\n")
        assert found == []
        assert problems


def test_entries_of_gke() -> None:
    deployment = {
        "@type": "apps.k8s.io/v1.Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "41"},
    }
    entries = [
        gke(
            "io.k8s.apps.v1.deployments.create",
            "apps/v1/namespaces/shop/deployments/web",
            request=deployment,
            response=deployment,
        ),
        gke("io.k8s.apps.v1.deployments.scale.update", "apps/v1/namespaces/shop/deployments/web/scale"),
        gke("io.k8s.core.v1.nodes.delete", "core/v1/nodes/n1"),
        gke(
            "io.k8s.core.v1.secrets.get",
            "core/v1/namespaces/shop/secrets/s",
            status={"code": 7, "message": "no"},
        ),
        gke("io.k8s.core.v1.namespaces.create", "core/v1/namespaces/shop"),
        gke("io.k8s.core.v1.pods.list", "core/v1/namespaces/shop/pods"),
        gke(
            "google.container.v1.ClusterManager.CreateCluster",
            "projects/shop",
            serviceName="container.googleapis.com",
        ),
    ]
    for data in (lines(*entries), pretty(entries)):
        found, problems = read(data)
        assert len(problems) == 1
        assert [
            (one.verb, one.group, one.resource, one.subresource, one.namespace, one.name, one.code)
            for one in found
        ] == [
            ("create", "apps", "deployments", "", "shop", "web", 201),
            ("update", "apps", "deployments", "scale", "shop", "web", 200),
            ("delete", "", "nodes", "", "", "n1", 200),
            ("get", "", "secrets", "", "shop", "s", 403),
            ("create", "", "namespaces", "", "shop", "shop", 201),
        ]
        assert found[0].returned["kind"] == "Deployment"
        assert found[0].returned["apiVersion"] == "apps/v1"
        assert found[0].returned_version == "41"
        assert (found[0].user, found[0].source) == ("alice@example.com", "kubectl/v1.30.1 from 35.235.240.1")


def test_import_of_a_compressed_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "000000.gz"
    log.write_bytes(gzip.compress(LAYOUTS["EKS to S3"] + b"2026-11-17T10:00:07.123Z I1117 not audit\n"))
    assert main(["import", "audit", str(log), str(tmp_path / "out")]) == 0
    assert [(one.offset, one.user) for one in imported(tmp_path / "out")] == [
        (1, "alice"),
        (2, "alice"),
        (3, "alice"),
    ]
    assert "1 lines or events" in capsys.readouterr().err


def test_entries_with_fields_of_wrong_types_are_left_out() -> None:
    """One of them, in gigabytes of others, does not end an import."""
    good = gke("io.k8s.core.v1.configmaps.create", "core/v1/namespaces/shop/configmaps/web")
    row = {"results": [[{"field": "@message", "value": orjson.dumps(event(1)).decode()}]]}
    bad: list[Any] = [{"results": [[{"field": []}]]}, {"apiVersion": []}, {**event(1), "apiVersion": {}}]
    for name in ("authenticationInfo", "requestMetadata", "status", "request", "response", "methodName"):
        for value in ("x", 5, [], ["x"], {"code": []}, {"code": {}}, {"metadata": 5}):
            changed = gke("io.k8s.core.v1.configmaps.create", "core/v1/namespaces/shop/configmaps/web")
            changed["protoPayload"][name] = value
            bad.append(changed)
    for one in bad:
        found, _ = read(b"\n".join(map(orjson.dumps, (good, one, row))))
        assert {request.name for request in found} >= {"web", "web-1"}, one
