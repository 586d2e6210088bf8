from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal import Journal, retention
from tests.gateway.journal_commands import delete, put, run_journal, write_history


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(
        tmp_path,
        [
            put("web", {"color": "blue"}),
            put("old", {"a": "1"}),
            put("same", {"a": "1"}),
            put("web", {"color": "red"}, user="bob"),
            delete("old", user="carol"),
            put("new", {"a": "1"}),
            put("brief"),
            delete("brief"),
            put("key", type_name="secrets", namespace="prod"),
            put("web", {"color": "red", "size": "xl"}),
        ],
    )
    return tmp_path


def test_diff_shows_created_deleted_and_changed_objects(folder: Path) -> None:
    result = run_journal("diff", "3", "10", f"--data-dir={folder}")
    assert result.code == 0
    lines = [line.partition(" at 2024")[0] for line in result.lines]
    assert lines[:-1] == [
        "+ ConfigMap default/new  6, last create by alice",
        "- ConfigMap default/old  2, last delete by carol",
        "~ ConfigMap default/web  1 -> 10, last update by alice",
        '    ~ data.color: "blue" -> "red"',
        '    + data.size: "xl"',
        "+ Secret prod/key  9, last create by alice",
    ]
    assert lines[-1].startswith("2 created, 1 deleted, 1 changed between 3 (2024-05-01")


def test_diff_as_json(folder: Path) -> None:
    document = run_journal("diff", "3", "-o", "json", "--kind=cm", f"--data-dir={folder}").document
    assert document["from"] == {"version": "3", "offset": 3, "time": "2024-05-01T12:00:03.000000Z"}
    assert document["to"] == {"version": "10", "offset": 10, "time": "2024-05-01T12:00:10.000000Z"}
    assert [(one["name"], one["after"]) for one in document["created"]] == [("new", 6)]
    assert [(one["name"], one["before"], one["last"]["user"]) for one in document["deleted"]] == [
        ("old", 2, "carol")
    ]
    (changed,) = document["changed"]
    assert changed["changes"] == [
        {"path": "data.color", "before": "blue", "after": "red"},
        {"path": "data.size", "after": "xl"},
    ]
    assert (changed["before"], changed["after"], changed["last"]["version"]) == (1, 10, "10")


def test_diff_in_reverse(folder: Path) -> None:
    document = run_journal("diff", "10", "3", "-o", "json", f"--data-dir={folder}").document
    assert document["backward"] is True
    assert [one["name"] for one in document["created"]] == ["new", "key"]
    assert [one["name"] for one in document["deleted"]] == ["old"]
    assert document["changed"][0]["changes"][0] == {"path": "data.color", "before": "red", "after": "blue"}


def test_diff_in_reverse_says_what_happened(folder: Path) -> None:
    result = run_journal("diff", "10", "3", f"--data-dir={folder}")
    lines = [line.partition(" at 2024")[0] for line in result.lines]
    assert lines[:-1] == [
        "- ConfigMap default/new  6, not yet created, last create by alice",
        "+ ConfigMap default/old  2, not yet deleted, last delete by carol",
        "~ ConfigMap default/web  10 -> 1, last update by alice",
        '    ~ data.color: "red" -> "blue"',
        '    - data.size: "xl"',
        "- Secret prod/key  9, not yet created, last create by alice",
    ]
    assert lines[-1].startswith("2 not yet created, 1 not yet deleted, 1 changed going back from 10 (2024-05")


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--kind=secret"], ["key"]),
        (["--namespace=prod"], ["key"]),
        (["--name=n*"], ["new"]),
        (["--kind=cm", "--namespace=default", "--name=new"], ["new"]),
    ],
)
def test_diff_with_filters(folder: Path, flags: list[str], names: list[str]) -> None:
    document = run_journal("diff", "3", "10", "-o", "json", f"--data-dir={folder}", *flags).document
    assert [one["name"] for one in document["created"]] == names
    assert document["changed"] == []


def test_diff_between_times_without_changes(folder: Path) -> None:
    result = run_journal("diff", "2024-05-01T12:00:06Z", "2024-05-01T12:00:08Z", f"--data-dir={folder}")
    assert result.lines[0].startswith("nothing changed between 6 (")
    result = run_journal("diff", "0", "1", f"--data-dir={folder}")
    assert result.lines[0].startswith("+ ConfigMap default/web  1, last create by alice at ")


def test_diff_below_the_floor_is_refused(folder: Path) -> None:
    journal = Journal.open(folder / "journal")
    while not retention.advance(journal, 4).done:
        pass
    journal.close()
    result = run_journal("diff", "3", "10", f"--data-dir={folder}")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(
        "rewound: version 3 is older than the journal keeps; the oldest version is 4"
    )
    assert (
        "- ConfigMap default/old  2, last delete by carol"
        in run_journal("diff", "4", f"--data-dir={folder}").out
    )


def test_diff_of_all_objects(tmp_path: Path) -> None:
    write_history(
        tmp_path, [put(f"n{at:02}") for at in range(10)] + [put(f"n{at:02}", {"a": "b"}) for at in range(10)]
    )
    document = run_journal("diff", "10", "-o", "json", f"--data-dir={tmp_path}").document
    assert len(document["changed"]) == 10
