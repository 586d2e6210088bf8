"""`rewound import audit` with logs of other servers, with several files, and with files that are not logs."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from rewound.cli.main import main
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.recording.record.requests import Unreadable, requests_in
from rewound.rewind.page.refused import refused_in
from tests.cases import cases
from tests.recording.record.recording import events_of

TIME = "2026-11-17T10:00:{:02d}.000000Z"


def audit(
    verb: str, second: int, name: str = "web", *, code: int = 200, uri: str = "/api/v1", **more: Any
) -> dict[str, Any]:
    """An event as Kubernetes writes it."""
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{second}",
        "stage": "ResponseComplete",
        "requestURI": uri,
        "verb": verb,
        "user": {"username": "alice"},
        "sourceIPs": ["10.0.0.7"],
        "userAgent": "kubectl/v1.25.0 (linux/amd64)",
        "objectRef": {"resource": "configmaps", "namespace": "shop", "name": name, "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": TIME.format(second),
        "stageTimestamp": TIME.format(second),
        **more,
    }


def config_map(version: int, text: str, name: str = "web", **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            **metadata,
        },
        "data": {"text": text},
    }


def gone(uid: str) -> dict[str, Any]:
    details = {"name": "web", "kind": "configmaps", "uid": uid}
    return {"responseStatus": {"status": "Success", "code": 200, "details": details}}


def write(path: Path, *events: dict[str, Any]) -> str:
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in events))
    return str(path)


def imported(out: Path, type_name: str = "configmaps") -> list[Event]:
    journal = Journal.open(out / "journal", readonly=True)
    try:
        return events_of(journal, type_name)
    finally:
        journal.close()


def test_lines_out_of_order_and_a_delete_without_a_version(tmp_path: Path) -> None:
    log = write(
        tmp_path / "audit.log",
        audit("create", 1, code=201, responseObject=config_map(10, "one")),
        audit("patch", 3, responseObject=config_map(14, "three")),
        audit("update", 2, responseObject=config_map(12, "two")),
        audit("delete", 4, **gone("uid-web")),
        audit("create", 5, code=201, responseObject=config_map(20, "again", uid="other")),
        audit("update", 5, responseObject=config_map(13, "late"), requestReceivedTimestamp=TIME.format(2)),
    )
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    found = imported(tmp_path / "out")
    shown = [(one.offset, one.verb, orjson.loads(one.body)["data"]["text"], one.removed) for one in found]
    assert shown == [
        (10, "create", "one", False),
        (12, "update", "two", False),
        (13, "update", "late", False),
        (14, "patch", "three", False),
        (15, "delete", "three", True),
        (20, "create", "again", False),
    ]
    assert {(one.user, one.manager) for one in found} == {("alice", "kubectl")}
    assert found[0].reason == "with kubectl/v1.25.0 (linux/amd64) from 10.0.0.7"
    assert "version assumed" in found[4].reason


def test_rotated_and_compressed_files_and_batches(tmp_path: Path) -> None:
    later = audit("update", 30, responseObject=config_map(30, "later"))
    batch = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [later]}
    write(tmp_path / "a.log", batch)
    first = write(tmp_path / "z.log", audit("create", 1, code=201, responseObject=config_map(10, "first")))
    (tmp_path / "z.log.gz").write_bytes(gzip.compress(Path(first).read_bytes()))
    out = tmp_path / "out.journal.gz"
    assert main(["import", "audit", str(tmp_path / "a.log"), str(tmp_path / "z.log.gz"), str(out)]) == 0
    assert main(["import", str(out), "--data-dir", str(tmp_path / "data")]) == 0
    assert [one.offset for one in imported(tmp_path / "data")] == [10, 30]


def test_logs_of_several_servers_of_a_cluster(tmp_path: Path) -> None:
    texts = [str(second) for second in range(40)]
    events = [
        audit("update", second, responseObject=config_map(10 + second, texts[second])) for second in range(40)
    ]
    files = [write(tmp_path / f"{number}.log", *events[number::3]) for number in range(3)]
    assert main(["import", "audit", *files, str(tmp_path / "out")]) == 0
    found = imported(tmp_path / "out")
    assert [(one.offset, orjson.loads(one.body)["data"]["text"]) for one in found] == [
        (10 + second, texts[second]) for second in range(40)
    ]


def test_clocks_that_differ_do_not_bring_an_object_back(tmp_path: Path) -> None:
    """A server with a slow clock logged version 105 before the delete at version 102."""
    log = write(
        tmp_path / "audit.log",
        audit("create", 1, code=201, responseObject=config_map(10, "one")),
        audit("update", 2, "other", responseObject=config_map(105, "other", "other")),
        audit("delete", 3, **gone("uid-web")),
        audit("create", 4, code=201, responseObject=config_map(103, "again", uid="new")),
    )
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    found = [one for one in imported(tmp_path / "out") if one.name == "web"]
    assert [(one.verb, one.removed) for one in found] == [
        ("create", False),
        ("delete", True),
        ("create", False),
    ]
    assert [one.offset for one in found] == sorted(one.offset for one in found)
    assert orjson.loads(found[-1].body)["metadata"]["resourceVersion"] == "103"


@pytest.mark.parametrize("version", ["9" * 19, "9" * 40, "abc", "0", "-1", "18446744073709551615"])
def test_impossible_versions_do_not_stop_an_import(tmp_path: Path, version: str) -> None:
    odd = config_map(10, "odd", "odd", resourceVersion=version)
    log = write(
        tmp_path / "audit.log",
        audit("create", 1, code=201, responseObject=config_map(5, "one")),
        audit("create", 2, "odd", code=201, responseObject=odd),
        audit("update", 9, responseObject=config_map(20, "two")),
    )
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    assert {one.name for one in imported(tmp_path / "out")} == {"web", "odd"}
    assert orjson.loads(imported(tmp_path / "out")[-1].body)["data"]["text"] == "two"


def test_refused_dry_and_unreadable_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forbidden = {"code": 403, "reason": "Forbidden", "message": "no\x1b"}
    log = write(
        tmp_path / "audit.log",
        audit("create", 1, code=201, responseObject=config_map(10, "one")),
        audit("delete", 2, responseStatus=forbidden, impersonatedUser={"username": "bob"}),
        audit("get", 2, code=404),
        audit("update", 3, uri="/api/v1/x?dryRun=All", responseObject=config_map(11, "dry")),
        audit("update", 3, stage="RequestReceived", responseObject=config_map(11, "early")),
        {**audit("update", 4), "stageTimestamp": "never"},
        audit("update", 4, responseObject={"kind": "ConfigMap", "metadata": {"name": ["a"]}}),
        audit("update", 4, responseObject=config_map(12, "two", labels={"a": 5})),
        audit("update", 5, "../x\x00", responseObject=config_map(13, "two", name="\x00")),
    )
    with Path(log).open("ab") as stream:
        stream.write(b"{half\n7\n[]\n\n")
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    assert [one.offset for one in imported(tmp_path / "out") if one.user == "alice"][:1] == [10]
    assert {orjson.loads(one.body)["data"]["text"] for one in imported(tmp_path / "out")} == {"one"}
    [refused] = refused_in(tmp_path / "out")
    assert (refused["user"], refused["verb"], refused["code"], refused["name"]) == (
        "bob",
        "delete",
        403,
        "web",
    )
    said = capsys.readouterr().err
    assert "3 lines or events of" in said and "1 requests were refused" in said


def test_objects_that_existed_before_and_marks(tmp_path: Path) -> None:
    held = config_map(20, "held", "held", finalizers=["a/b"], deletionTimestamp="2026-11-17T10:00:02Z")
    log = write(
        tmp_path / "audit.log",
        audit("delete", 1, **gone("uid-web")),
        audit("delete", 2, "held", responseObject=held),
        audit(
            "update", 3, "held", responseObject={**held, "metadata": {**held["metadata"], "finalizers": []}}
        ),
    )
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    shown = [(one.name, one.verb, one.removed) for one in imported(tmp_path / "out")]
    assert shown == [
        ("web", "create", False),
        ("web", "delete", True),
        ("held", "delete", False),
        ("held", "update", True),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there is nothing in it; name an audit log"),
        (b"\n \r\n", "there is nothing in it"),
        (gzip.compress(b'{"kind":"Event"}\n' * 9)[:-9], "or import what is sound: gzip -dc "),
        (b'{"kind":"Event","apiVersion":"v1"}\n', "is not an audit log"),
        (b"2026-11-17 AUDIT: id=...\n", "legacy format"),
        (b"\x1f\x8bbroken", ""),
    ],
)
def test_what_is_no_log_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    (tmp_path / "log").write_bytes(content)
    assert main(["import", "audit", str(tmp_path / "log"), str(tmp_path / "out")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@cases(
    "wrong, why",
    [
        ({"stage": None}, "stage is missing"),
        ({"user": "alice"}, "user is not an object"),
        ({"objectRef": ["web"]}, "objectRef is not an object"),
        ({"responseStatus": 5}, "responseStatus is not an object"),
        ({"responseStatus": {"code": 200, "details": "x"}}, "details is not an object"),
        ({"sourceIPs": 5}, "sourceIPs is not a list"),
        ({"stageTimestamp": 5}, "stageTimestamp: '5' is no time from 1970 to 2200"),
        ({"stageTimestamp": "2026-11-17T10:00:00"}, "stageTimestamp: '2026-11-17T10:00:00' is no time"),
        ({"requestReceivedTimestamp": "2300-01-01T00:00:00Z"}, "requestReceivedTimestamp: '2300-"),
        ({"requestReceivedTimestamp": None}, "requestReceivedTimestamp: 'None' is no time"),
    ],
)
def test_what_is_left_out_names_the_field(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(Unreadable) as raised:
        list(requests_in(orjson.dumps(audit("create", 1, **wrong))))
    assert str(raised.value).startswith(f"it is not an audit event: {why}")


def test_event_that_is_no_object() -> None:
    with pytest.raises(Unreadable, match="it is not an audit event: it is not an object"):
        list(requests_in(b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[5]}'))


def test_an_existing_folder_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    assert main(["import", "audit", "-", str(tmp_path / "out")]) == 1
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / "out" / "mine").exists()


@pytest.mark.parametrize("readable", [True, False])
def test_the_folder_of_a_running_recording_is_not_touched(tmp_path: Path, readable: bool) -> None:
    """`rewound record out.journal` works in out.journal.recording."""
    recording = tmp_path / "out.journal.recording" / "journal"
    recording.mkdir(parents=True)
    (recording / "data.mdb").write_bytes(b"of a recording")
    log = tmp_path / "audit.log"
    write(log, audit("create", 1, code=201, responseObject=config_map(10, "one")))
    if not readable:
        log.write_bytes(b"no log")
    out = tmp_path / "out.journal"
    assert main(["import", "audit", str(log), str(out)]) == (0 if readable else 1)
    assert (recording / "data.mdb").read_bytes() == b"of a recording"
    left = {recording.parent.name, log.name, *([out.name] if readable else [])}
    assert {one.name for one in tmp_path.iterdir()} == left
    if readable:
        assert main(["import", str(out), "--data-dir", str(tmp_path / "data")]) == 0
        assert [one.offset for one in imported(tmp_path / "data")] == [10]


def test_an_event_that_is_none_takes_no_other_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = [
        {"stage": "ResponseComplete", "verb": "create", "responseStatus": {"code": 1e308}},
        audit("create", 1, code=201, responseObject=config_map(10, "one")),
        audit("delete", 2, responseStatus={"code": 10**18}),
        audit("delete", 2, responseStatus={"code": True}),
        "no event",
        audit("update", 3, responseObject=config_map(12, "two")),
    ]
    log = write(
        tmp_path / "audit.log",
        {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": batch},
        {"kind": "Event", "apiVersion": ["audit.k8s.io/v1"]},
        {"kind": "Event", "apiVersion": {"a": 1}},
    )
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    assert [one.offset for one in imported(tmp_path / "out")] == [10, 12]
    assert "6 lines or events of" in capsys.readouterr().err


@pytest.mark.parametrize("left_out", [("responseObject",), ("responseObject", "requestObject")])
def test_order_and_times_without_versions_are_those_of_the_log(
    tmp_path: Path, left_out: tuple[str, ...]
) -> None:
    """Levels Request and Metadata; each object is created, patched and deleted while others are created."""
    events, version, second = [], 10, 0
    for number in range(18):
        steps = [("create", number), ("patch", number), ("patch", number - 1), ("delete", number - 2)]
        for verb, which in steps:
            if which < 0:
                continue
            version, second, name = version + 1, second + (version % 3 == 0), f"web-{which}"
            more: dict[str, Any] = gone(f"uid-{name}")
            if verb != "delete":
                sent = config_map(version, str(version), name)
                more = {"requestObject": sent, "responseObject": sent}
            events.append(audit(verb, second, name, **more))
    less = [{key: one for key, one in event.items() if key not in left_out} for event in events]
    shown = []
    for name, log in ("all", events), ("less", less):
        path = write(tmp_path / f"{name}.log", *log)
        assert main(["import", "audit", path, str(tmp_path / name)]) == 0
        shown.append([(one.time, one.name, one.verb, one.removed) for one in imported(tmp_path / name)])
    assert len(shown[0]) == len(events)
    assert shown[0] == shown[1]


PASSWORD = "correct-horse"


def about(resource: str, subresource: str = "", group: str = "") -> dict[str, Any]:
    named = {"resource": resource, "namespace": "shop", "name": "web", "apiVersion": "v1", "apiGroup": group}
    return {"objectRef": {**named, "subresource": subresource}}


@pytest.mark.parametrize("flags", [[], ["--with-secrets"]])
def test_values_of_secrets_are_in_no_file(tmp_path: Path, flags: list[str]) -> None:
    quoting = {"code": 422, "reason": "Invalid", "message": f'Invalid value: "map[pw:{PASSWORD}]"'}
    odd = {"kind": "Secret", "apiVersion": "v1", "stringData": [PASSWORD], "data": PASSWORD}
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "9"}
    log = write(
        tmp_path / "audit.log",
        audit("patch", 1, **about("secrets"), responseStatus=quoting),
        audit("create", 2, **about("tokenreviews", group="authentication.k8s.io"), responseStatus=quoting),
        audit("create", 3, **about("serviceaccounts", "token"), responseStatus={**quoting, "code": 400}),
        audit("get", 4, **about("secrets"), responseStatus={"code": 403, "message": "alice may not"}),
        audit("create", 5, code=201, **about("secrets"), responseObject={**odd, "metadata": metadata}),
        audit("patch", 6, **about("secrets"), requestObject=[{"op": PASSWORD, "path": "/data"}]),
    )
    out = tmp_path / "out"
    assert main(["import", "audit", *flags, log, str(out)]) == 0
    clear = [one for one in out.rglob("*") if one.is_file() and PASSWORD.encode() in one.read_bytes()]
    assert bool(clear) == bool(flags)
    refused = list(refused_in(out))
    assert [bool(one["message"]) for one in refused] == ([True] * 4 if flags else [False] * 3 + [True])
    assert [one["reason"] for one in refused[:3]] == ["Invalid"] * 3


def test_requests_of_aggregated_servers_are_no_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A TokenRequest returns a token that no server stores; a custom object is stored."""

    def create(second: int, kind: str, **metadata: Any) -> dict[str, Any]:
        group, plural = "login.example.com", kind.lower() + "s"
        sent = {"kind": kind, "apiVersion": f"{group}/v1", "spec": {"token": PASSWORD}}
        place = {"name": "web", "namespace": "shop"}
        bodies = {"requestObject": {**sent, "metadata": place}}
        if metadata:
            bodies["responseObject"] = {**sent, "metadata": {**place, **metadata}}
        return audit("create", second, code=201, **about(plural, group=group), **bodies)

    stored, shown = {"uid": "u", "resourceVersion": "7"}, {"creationTimestamp": None}
    defined = about("customresourcedefinitions", group="apiextensions.k8s.io")
    defined["objectRef"] |= {"name": "gadgets.login.example.com", "namespace": ""}
    log = write(
        tmp_path / "audit.log",
        create(1, "TokenRequest", **shown),
        create(2, "OtherRequest"),
        create(3, "Widget", **stored),
        audit("create", 4, code=201, **defined),
        create(5, "Gadget"),
    )
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    assert "2 requests are left out" in capsys.readouterr().err
    for plural, count in {"tokenrequests": 0, "otherrequests": 0, "widgets": 1, "gadgets": 1}.items():
        assert len(imported(tmp_path / "out", f"{plural}.login.example.com")) == count, plural


def test_a_log_that_begins_within_a_line_and_has_a_line_without_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewound.recording.record.requests.LONGEST_LINE", 4096)
    events = [audit("update", second, responseObject=config_map(10 + second, "text")) for second in (1, 2)]
    far = audit("update", 3, responseObject=config_map(13, "far"), stageTimestamp="9999-12-31T00:00:00Z")
    first, second, third = (orjson.dumps(one) + b"\n" for one in (*events, far))
    log = tmp_path / "audit.log"
    log.write_bytes(first[100:] + first + b"x" * 10_000 + b"\n" + third + second)
    assert main(["import", "audit", str(log), str(tmp_path / "out")]) == 0
    assert [one.offset for one in imported(tmp_path / "out")] == [11, 12]
    assert "3 lines or events of" in capsys.readouterr().err


def test_a_log_without_changes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path / "audit.log", audit("get", 1), audit("create", 2, "", code=201))
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "no request that changed an object" in said and "lacks the name" in said
    assert not (tmp_path / "out").exists()


def test_deletecollection_of_unknown_objects_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = "/api/v1/namespaces/shop/configmaps?labelSelector=app%3Dweb"
    log = write(tmp_path / "a.log", audit("create", 1, code=201), audit("deletecollection", 2, "", uri=uri))
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    assert "lacks the objects of a deletecollection" in capsys.readouterr().err


def test_a_version_that_no_server_has_takes_no_room(tmp_path: Path) -> None:
    log = write(
        tmp_path / "audit.log",
        audit("create", 1, "odd", code=201, responseObject=config_map(1 << 63, "odd", "odd")),
        audit("create", 2, code=201, responseObject=config_map(20, "one")),
        audit("update", 9, responseObject=config_map(21, "two")),
    )
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    assert [one.offset for one in imported(tmp_path / "out") if one.name == "web"] == [20, 21]


def test_refused_requests_go_with_exports_and_imports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(
        tmp_path / "audit.log",
        audit("create", 1, code=201, responseObject=config_map(10, "one")),
        audit("delete", 2, responseStatus={"code": 403}),
    )
    first, second = tmp_path / "first.journal", tmp_path / "second.journal.gz"
    assert main(["import", "audit", log, str(first)]) == 0
    assert main(["import", str(first), "--data-dir", str(tmp_path / "data")]) == 0
    assert main(["export", str(second), "--data-dir", str(tmp_path / "data")]) == 0
    assert "second.journal.gz.refused.jsonl" in capsys.readouterr().out
    for place in (first, tmp_path / "data", second):
        assert [one["code"] for one in refused_in(place)] == [403], place
    # Refusals of one file are not shown as those of another.
    second.unlink()
    for command in (
        ["import", "audit", log, str(second)],
        ["export", str(second), "--data-dir", str(tmp_path / "data")],
    ):
        assert main(command) == 1
        assert "refused requests of another recording" in capsys.readouterr().err
        assert not second.exists()
