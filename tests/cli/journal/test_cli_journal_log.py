from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal import Journal, retention
from tests.gateway.journal_commands import Result, delete, put, run_journal, write_history

LEASE = "leases.coordination.cluster.io"
STORY = [
    put("web", {"color": "blue"}),
    put("web", {"color": "red", "size": "xl"}, user="bob", manager="deployer"),
    put("key", {"k": "v"}, type_name="secrets", namespace="prod"),
    put("default", namespace="", type_name="namespaces", user="system:admin"),
    delete("web", user="carol"),
    put("lock", type_name=LEASE, namespace="prod", user="system:node:a"),
    put("web", {"color": "green"}),
    put("web", {"color": "green"}),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(tmp_path, STORY)
    return tmp_path


def log(folder: Path, *flags: str) -> Result:
    result = run_journal("log", f"--data-dir={folder}", *flags)
    assert (result.code, result.err) == (0, "")
    return result


def offsets(folder: Path, *flags: str) -> list[int]:
    found = [document["offset"] for document in log(folder, "-o", "json", *flags).documents]
    # The text output has the same ones.
    assert [int(line.split()[0]) for line in log(folder, *flags).lines[1:]] == found
    return found


def test_log_has_one_line_per_event(folder: Path) -> None:
    title, *lines = log(folder).lines
    assert title.split() == ["VERSION", "TIME", "USER", "VERB", "KIND", "OBJECT", "MANAGER", "WHAT"]
    assert len(lines) == len(STORY)
    created, updated, secret, namespace, deleted, lease, _, unchanged = (line.split() for line in lines)
    assert created[3:] == ["alice", "create", "ConfigMap", "default/web", "kubectl", "created:", "1", "key"]
    assert " ".join(updated[3:]) == (
        "bob update ConfigMap default/web deployer data.color blue → red, + data.size xl"
    )
    assert secret[5:7] == ["Secret", "prod/key"]
    assert namespace[5:7] == ["Namespace", "default"]
    assert deleted[3:] == ["carol", "delete", "ConfigMap", "default/web", "kubectl", "removed"]
    assert lease[5:7] == ["Lease", "prod/lock"]
    assert " ".join(unchanged[-2:]) == "nothing changed"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--kind=ConfigMap"], [1, 2, 5, 7, 8]),
        (["--kind=configmap"], [1, 2, 5, 7, 8]),
        (["--kind=configmaps"], [1, 2, 5, 7, 8]),
        (["--kind=cm", "--kind=ns"], [1, 2, 4, 5, 7, 8]),
        (["--kind=lease"], [6]),
        (["--kind", LEASE], [6]),
        (["--kind=leases.v1.coordination.cluster.io"], [6]),
        (["--kind=events"], []),
        (["--namespace=prod"], [3, 6]),
        (["--name=web"], [1, 2, 5, 7, 8]),
        (["--name=w*"], [1, 2, 5, 7, 8]),
        (["--kind=cm", "--namespace=default", "--name=web", "--user=bob"], [2]),
        (["--kind=ns", "--name=default"], [4]),
        (["--user=system:*"], [4, 6]),
        (["--verb=delete"], [5]),
        (["--since=6"], [6, 7, 8]),
        (["--until=2"], [1, 2]),
        (["--since=2024-05-01T12:00:03Z", "--until=2024-05-01T12:00:04.5Z"], [3, 4]),
        (["--since=1h"], []),
        (["--until=99"], [1, 2, 3, 4, 5, 6, 7, 8]),
        (["--tail", "3"], [6, 7, 8]),
        (["-n", "prod"], [3, 6]),
        (["--limit", "2", "--kind=cm", "--until=6"], [2, 5]),
        (["--limit=100"], [1, 2, 3, 4, 5, 6, 7, 8]),
        (["--reverse", "--limit", "2"], [8, 7]),
        (["--reverse", "--kind=cm", "--since=2"], [8, 7, 5, 2]),
    ],
)
def test_log_with_filters(folder: Path, flags: list[str], expected: list[int]) -> None:
    assert offsets(folder, *flags) == expected


def test_log_as_json_has_all_fields(folder: Path) -> None:
    documents = log(folder, "-o", "json").documents
    assert documents[1] == {
        "version": "2",
        "offset": 2,
        "time": "2024-05-01T12:00:02.000000Z",
        "user": "bob",
        "verb": "update",
        "manager": "deployer",
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "resource": "configmaps",
        "namespace": "default",
        "name": "web",
        "previous": 1,
        "removed": False,
        "size": 106,
        "changes": [
            {"path": "data.color", "before": "blue", "after": "red"},
            {"path": "data.size", "after": "xl"},
        ],
        "object": {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": "web", "namespace": "default", "resourceVersion": "2"},
            "data": {"color": "red", "size": "xl"},
        },
    }
    assert "namespace" not in documents[3]
    assert documents[4]["removed"] is True


def test_unknown_type_is_shown_by_its_stored_name(tmp_path: Path) -> None:
    write_history(
        tmp_path, [put("a", type_name="widgets.example.org"), put("b", type_name="widgets.example.org")]
    )
    assert offsets(tmp_path, "--kind=widgets") == [1, 2]
    assert offsets(tmp_path, "--kind=widgets.example.org", "--name=b") == [2]
    assert log(tmp_path).lines[1].split()[5] == "widgets.example.org"
    (first, _) = log(tmp_path, "-o", "json").documents
    assert "kind" not in first["object"]


def test_log_of_kubernetes_dialect_has_its_names(tmp_path: Path) -> None:
    write_history(tmp_path, [put("lock", type_name="leases.coordination.k8s.io")], dialect="kubernetes")
    assert offsets(tmp_path, "--kind=leases.coordination.k8s.io") == [1]
    (lease,) = log(tmp_path, "-o", "json").documents
    assert lease["apiVersion"] == "coordination.k8s.io/v1"


def test_log_of_an_empty_journal_is_empty(tmp_path: Path) -> None:
    write_history(tmp_path, [])
    assert log(tmp_path).out == ""
    assert log(tmp_path, "--limit", "5", "-o", "json").out == ""


def test_log_shows_events_that_retention_left(folder: Path) -> None:
    journal = Journal.open(folder / "journal")
    while not retention.advance(journal, 7).done:
        pass
    journal.close()
    assert offsets(folder) == [3, 4, 6, 7, 8]
    assert log(folder, "--since=8", "--until=8").lines[1].endswith("nothing changed")


def test_log_of_more_than_one_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rewound.recording.query import events as reading

    monkeypatch.setattr(reading, "SLICE", 3)
    monkeypatch.setattr(reading, "SCAN", 5)
    write_history(tmp_path, [put(f"n{at % 7}", {"at": str(at)}) for at in range(40)])
    assert offsets(tmp_path) == list(range(1, 41))
    assert offsets(tmp_path, "--reverse") == list(range(40, 0, -1))
    assert offsets(tmp_path, "--name=n3") == [4, 11, 18, 25, 32, 39]
    assert offsets(tmp_path, "--name=n3", "--limit", "4") == [18, 25, 32, 39]
    assert offsets(tmp_path, "--name=nobody") == []


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--verb=nonsense"], "--verb: 'nonsense' is not a verb of the journal; there are create, update, "),
        (["--since=5", "--until=3"], "--since (event 5) is after --until (event 3); exchange them"),
        (["--since=2024-05-01T12:00:05Z", "--until=2024-05-01T12:00:04Z"], " is after --until ("),
        (["--since=2024-05-01T12:00:05Z", "--until=3"], " is after --until (event 3); exchange them"),
    ],
)
def test_flags_that_no_event_can_match_are_refused(folder: Path, flags: list[str], text: str) -> None:
    result = run_journal("log", f"--data-dir={folder}", *flags)
    assert (result.code, result.out) == (2, "")
    assert text in result.err


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--since=9"], "version 9 is ahead of the journal, which is at 8; take one up to that"),
        (["--since=2999-01-01T00:00:00Z"], " is in the future; take a time that has passed"),
        (["--since=2999-01-01T00:00:00Z", "-f"], " is in the future; take a time that has passed"),
        (["--until=2020-01-01"], " is before the first event, of 2024-05-01 "),
        (["-n", "prdo"], "there is no namespace 'prdo' in the journal in "),
        (["-n", "prdo"], ": did you mean 'prod'?"),
        (["-n", "5"], "; for a number of events write --limit 5"),
    ],
)
def test_moments_and_namespaces_that_are_not_there_are_errors(
    folder: Path, flags: list[str], text: str
) -> None:
    result = run_journal("log", f"--data-dir={folder}", *flags)
    assert (result.code, result.out) == (1, "")
    assert text in result.err and result.err.count("\n") == 1


@pytest.mark.parametrize("flags", [["--verb=patch"], ["--verb=deletec*"], ["--since=10m"]])
def test_flags_that_an_event_could_match_are_accepted(folder: Path, flags: list[str]) -> None:
    assert offsets(folder, *flags) == []
