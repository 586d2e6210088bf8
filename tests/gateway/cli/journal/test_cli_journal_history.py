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
            put("web2", {"color": "x"}),
            put("web", {"color": "red", "size": "xl"}, user="bob"),
            put("prod", namespace="", type_name="namespaces"),
            delete("web", user="carol"),
            put("web", {"color": "green"}),
            put("web", {"color": "green"}, namespace="other"),
        ],
    )
    return tmp_path


def test_history_shows_versions_across_deletion(folder: Path) -> None:
    result = run_journal("history", "cm", "default/web", f"--data-dir={folder}")
    assert result.code == 0
    events = [line.split() for line in result.lines if not line.startswith(" " * 8)]
    assert [(words[0], words[3], words[4], " ".join(words[5:7])) for words in events] == [
        ("1", "alice", "create", "with kubectl:"),
        ("3", "bob", "update", "with kubectl:"),
        ("5", "carol", "delete", "with kubectl:"),
        ("6", "alice", "create", "with kubectl:"),
    ]
    assert [" ".join(words[7:]) for words in events] == [
        "created, 95 B",
        "2 changed",
        "removed",
        "created, 96 B",
    ]
    assert result.lines[2].strip() == '~ data.color: "blue" -> "red"'
    assert result.lines[3].strip() == '+ data.size: "xl"'


def test_cluster_scoped_object_has_a_name_only(folder: Path) -> None:
    result = run_journal("history", "Namespace", "prod", f"--data-dir={folder}")
    assert [line.split()[0] for line in result.lines] == ["4"]


@pytest.mark.parametrize(
    ("flags", "expected"), [(["-n", "2"], [5, 6]), (["--reverse"], [6, 5, 3, 1]), (["-n1", "--reverse"], [6])]
)
def test_history_with_limit_and_reverse(folder: Path, flags: list[str], expected: list[int]) -> None:
    result = run_journal("history", "configmaps", "default/web", "-o", "json", f"--data-dir={folder}", *flags)
    assert [version["offset"] for version in result.document["versions"]] == expected


def test_history_as_json(folder: Path) -> None:
    document = run_journal("history", "cm", "default/web", "-o", "json", f"--data-dir={folder}").document
    assert (document["kind"], document["namespace"], document["name"]) == ("ConfigMap", "default", "web")
    assert document["versions"][1]["changes"][0] == {"path": "data.color", "before": "blue", "after": "red"}
    assert document["versions"][1]["object"]["data"]["size"] == "xl"


def test_history_says_when_the_content_before_is_compacted(folder: Path) -> None:
    journal = Journal.open(folder / "journal")
    while not retention.advance(journal, 3).done:
        pass
    journal.close()
    result = run_journal("history", "cm", "default/web", f"--data-dir={folder}")
    assert result.lines[0].endswith("what it changed is no longer in the journal")
    assert [line.split()[0] for line in result.lines] == ["3", "5", "6"]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["cm", "web"], 2, "configmaps are namespaced; write NAMESPACE/NAME, as in default/web"),
        (["ns", "a/b"], 2, "namespaces are cluster-scoped; write the name alone: b"),
        (["cm", "default/w*"], 2, "'default/w*' is not one object"),
        (["cm", "default/nobody"], 1, "no version of configmaps default/nobody is in the journal"),
    ],
)
def test_wrong_arguments_are_refused(folder: Path, words: list[str], code: int, why: str) -> None:
    result = run_journal("history", *words, f"--data-dir={folder}")
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"rewound: {why}")
    assert result.err.count("\n") == 1
