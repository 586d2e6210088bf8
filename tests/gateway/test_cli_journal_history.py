from __future__ import annotations

from pathlib import Path

import pytest

from journal import Journal, retention
from tests.gateway.chronicle import ask, gone, put, tell


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tell(
        tmp_path,
        [
            put("web", {"color": "blue"}),
            put("web2", {"color": "x"}),
            put("web", {"color": "red", "size": "xl"}, user="bob"),
            put("prod", namespace="", type_name="namespaces"),
            gone("web", user="carol"),
            put("web", {"color": "green"}),
            put("web", {"color": "green"}, namespace="other"),
        ],
    )
    return tmp_path


def test_all_versions_through_a_re_creation(folder: Path) -> None:
    said = ask("history", "cm", "default/web", f"--data-dir={folder}")
    assert said.code == 0
    events = [line.split() for line in said.lines if not line.startswith(" " * 8)]
    assert [(words[0], words[3], words[4], " ".join(words[5:7])) for words in events] == [
        ("1", "alice", "create", "with kubectl:"),
        ("3", "bob", "update", "with kubectl:"),
        ("5", "carol", "delete", "with kubectl:"),
        ("6", "alice", "create", "with kubectl:"),
    ]
    assert [" ".join(words[7:]) for words in events] == ["made, 95 B", "2 changed", "removed", "made, 96 B"]
    assert said.lines[2].strip() == '~ data.color: "blue" -> "red"'
    assert said.lines[3].strip() == '+ data.size: "xl"'


def test_what_is_in_no_namespace_has_a_name_alone(folder: Path) -> None:
    said = ask("history", "Namespace", "prod", f"--data-dir={folder}")
    assert [line.split()[0] for line in said.lines] == ["4"]


@pytest.mark.parametrize(
    ("flags", "expected"), [(["-n", "2"], [5, 6]), (["--reverse"], [6, 5, 3, 1]), (["-n1", "--reverse"], [6])]
)
def test_some_of_them(folder: Path, flags: list[str], expected: list[int]) -> None:
    said = ask("history", "configmaps", "default/web", "-o", "json", f"--data-dir={folder}", *flags)
    assert [version["offset"] for version in said.document["versions"]] == expected


def test_for_programs_one_document(folder: Path) -> None:
    document = ask("history", "cm", "default/web", "-o", "json", f"--data-dir={folder}").document
    assert (document["kind"], document["namespace"], document["name"]) == ("ConfigMap", "default", "web")
    assert document["versions"][1]["changes"][0] == {"path": "data.color", "before": "blue", "after": "red"}
    assert document["versions"][1]["object"]["data"]["size"] == "xl"


def test_what_came_before_the_floor_is_said_to_be_gone(folder: Path) -> None:
    journal = Journal.open(folder / "journal")
    while not retention.advance(journal, 3).done:
        pass
    journal.close()
    said = ask("history", "cm", "default/web", f"--data-dir={folder}")
    assert said.lines[0].endswith("what it changed is no longer kept")
    assert [line.split()[0] for line in said.lines] == ["3", "5", "6"]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["cm", "web"], 2, "configmaps are in namespaces; write NAMESPACE/NAME, as in default/web"),
        (["ns", "a/b"], 2, "namespaces are in no namespace; write the name alone: b"),
        (["cm", "default/w*"], 2, "'default/w*' is not one object"),
        (["cm", "default/nobody"], 1, "no version of configmaps default/nobody is kept"),
    ],
)
def test_mistakes(folder: Path, words: list[str], code: int, why: str) -> None:
    said = ask("history", *words, f"--data-dir={folder}")
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith(f"rewound: {why}")
    assert said.err.count("\n") == 1
