from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal import Journal, retention
from rewound.journal.errors import Compacted
from rewound.journal.repair import verify
from tests.journal.model import Model


def example(journal: Journal, model: Model) -> None:
    journal.append([model.put("a"), model.put("b"), model.put("a"), model.remove("b"), model.put("c")])


def surviving(journal: Journal) -> list[int]:
    with journal.read() as view:
        return [event.offset for event in view.all_events(0)]


def test_events_up_to_the_floor_are_the_state_at_the_floor(journal: Journal, model: Model) -> None:
    example(journal, model)
    progress = retention.advance(journal, 4)
    assert progress == retention.Progress(floor=4, passed=4, deleted=3, done=True)
    assert surviving(journal) == [3, 5]
    with journal.read() as view:
        assert view.floor == 4
        assert list(view.at(4).rows(1)) == list(model.rows(1, at=4))
        assert [event.offset for event in view.history(1, "default", "a")] == [3]
        assert verify.verify(view).differences == []


def test_floor_advances_in_steps(journal: Journal, model: Model) -> None:
    example(journal, model)
    floors = []
    while not (progress := retention.advance(journal, 4, max_events=1)).done:
        floors.append(progress.floor)
        with journal.read() as view:
            assert verify.verify(view).differences == []
    assert floors == [1, 2, 3, 4]
    assert surviving(journal) == [3, 5]


def test_newest_event_is_never_removed(tmp_path: Path, model: Model) -> None:
    journal = Journal.open(tmp_path)
    journal.append([model.put("a"), model.remove("a")])
    assert retention.advance(journal, 99).floor == 1
    assert surviving(journal) == [1, 2]
    journal.close()
    again = Journal.open(tmp_path)
    assert again.head == 2
    again.close()


def test_floor_never_decreases(journal: Journal, model: Model) -> None:
    example(journal, model)
    retention.advance(journal, 3)
    assert retention.advance(journal, 1) == retention.Progress(3, 0, 0, True)


def test_floor_of_an_empty_journal_stays_0(journal: Journal) -> None:
    assert retention.advance(journal, 10) == retention.Progress(0, 0, 0, True)


def test_versions_below_the_floor_are_refused(journal: Journal, model: Model) -> None:
    example(journal, model)
    retention.advance(journal, 3)
    with journal.read() as view:
        with pytest.raises(Compacted, match="oldest one is 3"):
            view.at(2)
        with pytest.raises(Compacted):
            view.events(2)
        assert [event.offset for event in view.events(3)] == [4, 5]
