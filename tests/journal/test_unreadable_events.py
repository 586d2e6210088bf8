"""An event whose contents no server can have written costs only itself: everything else is opened, read and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal import Event, Journal
from rewound.journal.cuts import cut, scope_of
from rewound.journal.errors import DamagedTail, Unreadable
from rewound.journal.thinning import forget, thin
from tests.journal.model import Model
from tests.journal.test_too_large_contents import claiming, put, stored

TOO_LARGE = claiming(64 << 20)


@pytest.mark.parametrize("frame", [TOO_LARGE, b"no frame"])
@pytest.mark.parametrize("place", [0, 2, 5])
def test_journal_opens_and_is_written(tmp_path: Path, model: Model, place: int, frame: bytes) -> None:
    journal = Journal.open(tmp_path / "journal")
    journal.register_type("configmaps")
    events = [model.put(name) for name in "abcabc"]
    journal.append(events)
    put(journal, events[place], stored(events[place], frame))
    journal.close()

    journal = Journal.open(tmp_path / "journal")
    [text] = journal.unreadable
    assert text.startswith(f"event {place + 1} has a wrong field (contents: ")
    with pytest.raises(Unreadable), journal.read() as view:
        view.event(place + 1)
    journal.append([model.put("a")])
    with journal.read() as view:
        assert [name for _, name, _ in view.rows(1)] == ["a", "b", "c"]
        readable = [number for number in range(1, 8) if number != place + 1]
        assert [view.event(number).offset for number in readable] == readable  # type: ignore[union-attr]
    journal.close()


def test_event_with_other_wrong_fields_is_damage_of_the_tail(tmp_path: Path, model: Model) -> None:
    journal = Journal.open(tmp_path / "journal")
    journal.register_type("configmaps")
    events = [model.put(name) for name in "ab"]
    journal.append(events)
    put(journal, events[1], stored(events[1]._replace(previous=9), TOO_LARGE))
    journal.close()
    with pytest.raises(DamagedTail):
        Journal.open(tmp_path / "journal")


def alike(_before: Event, _event: Event) -> bool:
    return True


def test_old_events_are_dropped_around_it(journal: Journal, model: Model) -> None:
    journal.register_type("configmaps")
    events = [model.put("a") for _ in range(8)]
    journal.append(events)
    put(journal, events[3], stored(events[3], TOO_LARGE))

    def left() -> list[tuple[int, int]]:
        with journal.read() as view:
            return [(event.offset, event.previous) for event in view.all_events(0, contents=False)]

    sum(thin(journal, 1, 6, alike))
    assert left() == [(1, 0), (3, 1), (6, 3), (7, 6), (8, 7)]
    sum(forget(journal, 1, 7))
    assert left()[-2:] == [(7, left()[-3][0]), (8, 7)]
    assert sum(cut(journal, scope_of(1, "default"), 7)) > 0
    assert left() == [(7, 0), (8, 7)]
