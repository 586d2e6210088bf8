from __future__ import annotations

from pathlib import Path

import pytest

from rewound.gateway.wire.yaml import load
from rewound.journal import Journal, retention
from tests.gateway.journal_commands import HistoryWriter, delete, put, run_journal, write_history


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    managed = {"managedFields": [{"manager": "kubectl", "time": "1"}]}
    again = {"managedFields": [{"manager": "kubectl", "time": "2"}]}
    write_history(
        tmp_path,
        [
            put("web", {"color": "blue"}, metadata=managed),
            put("web", {"color": "red"}, user="bob", metadata=again),
            delete("web"),
        ],
    )
    return tmp_path


def test_show_prints_an_event(folder: Path) -> None:
    result = run_journal("show", "2", f"--data-dir={folder}")
    assert result.code == 0
    assert result.lines[0] == "event 2"
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
        assert line in result.lines
    assert "managedFields" not in "".join(result.lines[: result.lines.index("object")])


def test_show_of_a_first_version_has_no_changes(folder: Path) -> None:
    result = run_journal("show", "1", f"--data-dir={folder}")
    assert "  follows  nothing: it did not exist" in result.lines
    assert "changes since" not in result.out


def test_show_of_a_removal(folder: Path) -> None:
    result = run_journal("show", "3", f"--data-dir={folder}")
    assert "  verb     delete, the object was removed" in result.lines
    assert "    color: red" in result.lines


def test_show_compares_managed_fields_on_request(folder: Path) -> None:
    result = run_journal("show", "2", "--show-managed-fields", f"--data-dir={folder}")
    assert '  ~ metadata.managedFields[0].time: "1" -> "2"' in result.lines


def test_show_as_json_and_yaml(folder: Path) -> None:
    document = run_journal("show", "2", "-o", "json", f"--data-dir={folder}").document
    assert document["changes"] == [{"path": "data.color", "before": "blue", "after": "red"}]
    assert document["object"]["data"] == {"color": "red"}
    printed = run_journal("show", "2", "-o", "yaml", f"--data-dir={folder}").out
    assert load(printed.encode()).value == document


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        ("3", "event 3 is no longer in the journal, which has all events after 4"),
        ("6", "there is no event 6: nothing was committed under that version; the next one is 8"),
        ("99", "there is no event 99 yet: the newest is 8"),
    ],
)
def test_missing_event_is_explained(tmp_path: Path, offset: str, why: str) -> None:
    journal = Journal.open(tmp_path / "journal")
    writer = HistoryWriter(journal)
    writer.write([put("a"), put("b"), put("a"), put("a"), put("a")])
    fresh = writer._event(6, put("z"))
    journal.append([fresh._replace(offset=8)])
    while not retention.advance(journal, 4).done:
        pass
    journal.close()
    result = run_journal("show", offset, f"--data-dir={tmp_path}")
    assert (result.code, result.out, result.err) == (1, "", f"rewound: {why}\n")
    assert (
        "  follows  3 (no longer in the journal)" in run_journal("show", "4", f"--data-dir={tmp_path}").lines
    )
