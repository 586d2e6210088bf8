from __future__ import annotations

from pathlib import Path

import pytest

from gateway.wire.yaml import load
from journal import Journal, retention
from tests.gateway.chronicle import Teller, ask, gone, put, tell


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    managed = {"managedFields": [{"manager": "kubectl", "time": "1"}]}
    again = {"managedFields": [{"manager": "kubectl", "time": "2"}]}
    tell(
        tmp_path,
        [
            put("web", {"color": "blue"}, metadata=managed),
            put("web", {"color": "red"}, user="bob", metadata=again),
            gone("web"),
        ],
    )
    return tmp_path


def test_an_event_whole(folder: Path) -> None:
    said = ask("show", "2", f"--data-dir={folder}")
    assert said.code == 0
    assert said.lines[0] == "event 2"
    for line in (
        "  user     bob",
        "  verb     update",
        "  object   ConfigMap default/web",
        "  type     configmaps v1",
        "  follows  1",
        "changes since 1",
        '  ~ data.color: "blue" -> "red"',
        "object",
        "  kind: ConfigMap",
        "    color: red",
    ):
        assert line in said.lines
    assert "managedFields" not in "".join(said.lines[: said.lines.index("object")])


def test_the_first_version_has_nothing_to_compare(folder: Path) -> None:
    said = ask("show", "1", f"--data-dir={folder}")
    assert "  follows  nothing: it did not exist" in said.lines
    assert "changes since" not in said.out


def test_a_removal_says_so(folder: Path) -> None:
    said = ask("show", "3", f"--data-dir={folder}")
    assert "  verb     delete, the object is gone" in said.lines
    assert "    color: red" in said.lines


def test_managed_fields_on_demand(folder: Path) -> None:
    said = ask("show", "2", "--show-managed-fields", f"--data-dir={folder}")
    assert '  ~ metadata.managedFields[0].time: "1" -> "2"' in said.lines


def test_for_programs(folder: Path) -> None:
    document = ask("show", "2", "-o", "json", f"--data-dir={folder}").document
    assert document["changes"] == [{"path": "data.color", "before": "blue", "after": "red"}]
    assert document["object"]["data"] == {"color": "red"}
    printed = ask("show", "2", "-o", "yaml", f"--data-dir={folder}").out
    assert load(printed.encode()).value == document


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        ("3", "event 3 is no longer kept: the journal has all events behind 4"),
        ("6", "there is no event 6: nothing was committed under that offset; the next one is 8"),
        ("99", "there is no event 99 yet: the newest is 8"),
    ],
)
def test_what_is_not_there_is_told_why(tmp_path: Path, offset: str, why: str) -> None:
    journal = Journal.open(tmp_path / "journal")
    teller = Teller(journal)
    teller.tell([put("a"), put("b"), put("a"), put("a"), put("a")])
    fresh = teller._event(6, put("z"))
    journal.append([fresh._replace(offset=8)])
    while not retention.advance(journal, 4).done:
        pass
    journal.close()
    said = ask("show", offset, f"--data-dir={tmp_path}")
    assert (said.code, said.out, said.err) == (1, "", f"rewound: {why}\n")
    assert "  follows  3 (no longer kept)" in ask("show", "4", f"--data-dir={tmp_path}").lines
