from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.gateway.wire.yaml import load
from rewound.journal import Journal, retention
from tests.gateway.journal_commands import Step, delete, put, run_journal, write_history


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(
        tmp_path,
        [
            put("web", {"color": "blue"}),
            put("key", type_name="secrets", namespace="prod"),
            put("web", {"color": "red"}),
            put("prod", namespace="", type_name="namespaces"),
            delete("key", type_name="secrets", namespace="prod"),
            put("lock", namespace="prod", type_name="leases.coordination.cluster.io"),
        ],
    )
    return tmp_path


def items(folder: Path, *flags: str) -> list[tuple[str, str, str]]:
    result = run_journal("state", "-o", "json", f"--data-dir={folder}", *flags)
    assert (result.code, result.err) == (0, "")
    printed = run_journal("state", "-o", "yaml", f"--data-dir={folder}", *flags).out
    assert load(printed.encode()).value == result.document
    found = result.document["items"]
    assert len(run_journal("state", "-o", "name", f"--data-dir={folder}", *flags).lines) == len(found)
    return [(item["kind"], item["metadata"]["name"], item["metadata"]["resourceVersion"]) for item in found]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], [("ConfigMap", "web", "3"), ("Lease", "lock", "6"), ("Namespace", "prod", "4")]),
        (["--at=2"], [("ConfigMap", "web", "1"), ("Secret", "key", "2")]),
        (["--at=2", "--kind=cm"], [("ConfigMap", "web", "1")]),
        (["--at=2", "--kind=cm", "--kind=secrets"], [("ConfigMap", "web", "1"), ("Secret", "key", "2")]),
        (["--at=2024-05-01T12:00:01.9Z"], [("ConfigMap", "web", "1")]),
        (["--at=0"], []),
        (["--at=10m"], [("ConfigMap", "web", "3"), ("Lease", "lock", "6"), ("Namespace", "prod", "4")]),
        (["--namespace=prod"], [("Lease", "lock", "6")]),
        (["--namespace=pr*"], [("Lease", "lock", "6")]),
        (["--namespace=prod", "--at=4"], [("Secret", "key", "2")]),
        (["--name=web"], [("ConfigMap", "web", "3")]),
    ],
)
def test_state_at_a_moment(folder: Path, flags: list[str], expected: list[tuple[str, str, str]]) -> None:
    assert items(folder, *flags) == expected


def test_state_has_a_table_for_each_kind(folder: Path) -> None:
    lines = run_journal("state", "--at=4", f"--data-dir={folder}").lines
    assert [line.split() for line in lines] == [
        ["NAMESPACE", "NAME", "DATA", "AGE"],
        ["default", "web", "1", "<unknown>"],
        [],
        ["NAME", "STATUS", "AGE"],
        ["prod", "<unknown>"],
        [],
        ["NAMESPACE", "NAME", "TYPE", "DATA", "AGE"],
        ["prod", "key", "0", "<unknown>"],
    ]
    wide = run_journal("state", "--at=4", "--kind=cm", "-o", "wide", f"--data-dir={folder}").lines
    assert wide[1].split()[:3] == ["default", "3", "web"]


def test_state_as_json_and_yaml_is_a_list(folder: Path) -> None:
    document: Any = run_journal("state", "--at=1", "-o", "json", f"--data-dir={folder}").document
    assert document == {
        "kind": "List",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "1"},
        "items": [
            {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {"name": "web", "namespace": "default", "resourceVersion": "1"},
                "data": {"color": "blue"},
            }
        ],
    }


def test_versions_outside_the_journal_are_refused(folder: Path) -> None:
    journal = Journal.open(folder / "journal")
    while not retention.advance(journal, 4).done:
        pass
    journal.close()
    assert items(folder, "--at=4")[0] == ("ConfigMap", "web", "3")
    for moment, why in (
        ("3", "version 3 is older than the journal keeps; the oldest version is 4 (shortly before "),
        (
            "2024-05-01T12:00:02Z",
            "2024-05-01 12:00:02.000000+00:00 is older than the journal keeps; the oldest version is 4",
        ),
        ("2020-01-01T00:00:00Z", "2020-01-01 00:00:00.000000+00:00 is older than the journal keeps"),
        ("7", "version 7 is ahead of the journal, which is at 6"),
        (
            "9999-01-01T00:00:00Z",
            "9999-01-01 00:00:00.000000+00:00 is in the future; take a time that has passed",
        ),
    ):
        result = run_journal("state", f"--at={moment}", f"--data-dir={folder}")
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(f"rewound: {why}")


def test_state_of_more_than_one_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rewound.recording.query import folder_source

    monkeypatch.setattr(folder_source, "PAGE", 4)
    write_history(
        tmp_path,
        [put(f"n{at:02}", namespace=f"ns{at % 3}") for at in range(21)] + [delete("n20", namespace="ns2")],
    )
    assert len(items(tmp_path)) == 20
    assert len(items(tmp_path, "--at=21")) == 21
    assert len(items(tmp_path, "--namespace=ns1")) == 7


def test_table_has_a_row_for_an_object_of_another_form(tmp_path: Path) -> None:
    """A recording of another server may contain anything: a row shows what can be read of it."""
    born = {"creationTimestamp": "2024-05-01T12:00:01Z"}
    sound = {"spec": {"containers": [{"name": "a"}]}, "status": {"phase": "Running"}}
    odd = {"spec": [1, 2], "status": "none"}
    steps = [
        Step("odd", odd, type_name="pods", metadata=born),
        Step("sound", sound, type_name="pods", metadata=born),
    ]
    write_history(tmp_path, steps)
    title, *rows = run_journal("at", "2", "pods", f"--data-dir={tmp_path}").lines
    assert title.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row.split() for row in rows] == [
        ["odd", "0/0", "0", "1s"],
        ["sound", "0/1", "Running", "0", "1s"],
    ]
