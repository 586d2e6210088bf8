"""A fork has the same events and states up to its version, and continues from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal import Journal, retention
from rewound.journal.errors import Compacted, JournalExists
from rewound.journal.transfer import fork
from tests.gateway.journal_commands import delete, put, write_history


def original(folder: Path) -> Journal:
    steps = [put(f"c{number % 5}", {"n": str(number)}) for number in range(40)]
    steps[12:12] = [delete("c1")]
    write_history(folder, steps)
    return Journal.open(folder / "journal")


@pytest.mark.parametrize(("floor", "version"), [(0, 41), (0, 20), (0, 0), (10, 10), (10, 30)])
def test_fork_equals_the_journal_up_to_its_version(tmp_path: Path, floor: int, version: int) -> None:
    journal = original(tmp_path / "one")
    retention.advance(journal, floor)
    with journal.read() as view:
        fork(view, tmp_path / "other", version)
        copied = Journal.open(tmp_path / "other")
        type_id = journal.type_id("configmaps")
        assert copied.types() == journal.types()
        with copied.read() as present:
            assert (present.head, present.floor) == (version, floor)
            assert list(present.rows(type_id)) == list(view.at(version).rows(type_id))
            expected = [event for event in view.all_events(0) if event.offset <= version]
            assert list(present.all_events(0)) == expected
    copied.close()
    journal.close()


def test_fork_needs_a_new_folder_and_a_version_of_the_journal(tmp_path: Path) -> None:
    journal = original(tmp_path / "one")
    retention.advance(journal, 10)
    with journal.read() as view:
        with pytest.raises(JournalExists):
            fork(view, tmp_path / "one" / "journal", 20)
        with pytest.raises(Compacted):
            fork(view, tmp_path / "other", 9)
    journal.close()
