from __future__ import annotations

from rewound.journal import Journal
from tests.journal.model import NOON, Model


def test_history_continues_after_removal(journal: Journal, model: Model) -> None:
    journal.append([model.put("a"), model.put("b"), model.put("a"), model.remove("a"), model.put("a")])
    with journal.read() as view:
        found = [(event.offset, event.verb, event.previous) for event in view.history(1, "default", "a")]
    assert found == [(1, "create", 0), (3, "update", 1), (4, "delete", 3), (5, "create", 0)]


def test_offset_at_a_time(journal: Journal, model: Model) -> None:
    times = [(3, 10), (4, 10), (9, 10), (10, 20), (50, 30), (51, 30), (400, 45)]
    journal.append([model.put(f"n{at}")._replace(offset=at, time=NOON + time) for at, time in times])
    with journal.read() as view:
        for moment in range(50):
            expected = max((at for at, time in times if time <= moment), default=0)
            assert view.offset_at(NOON + moment) == expected


def test_offset_at_a_time_in_an_empty_journal_is_0(journal: Journal) -> None:
    with journal.read() as view:
        assert view.offset_at(NOON) == 0
