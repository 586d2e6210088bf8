"""A repeated list needs no lookup of rows until something of its type is written."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.journal import Journal, keys, state
from rewound.journal.retention import advance
from tests.journal.model import Model


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each lookup."""
    lookups: list[int] = []
    rows = state.CheckedRows._rows

    def counted(self: state.CheckedRows, *where: Any) -> list[state.Entry]:
        found = rows(self, *where)
        lookups.append(len(found))
        return found

    monkeypatch.setattr(state.CheckedRows, "_rows", counted)
    return lookups


def listed(journal: Journal, namespace: str | None = None) -> list[bytes]:
    with journal.read() as view:
        return view.page(1, namespace).bodies


def bodies(model: Model) -> list[bytes]:
    return [row.body for _, _, row in model.rows(1)]


def filled(journal: Journal, model: Model, count: int = 10, filler: str = "") -> None:
    journal.append([model.put(f"n{i}", filler=filler) for i in range(count)])
    for _ in range(2):  # rows that are read twice are cached
        assert listed(journal) == bodies(model)


def test_unchanged_list_needs_no_lookup(journal: Journal, model: Model, looked_up: list[int]) -> None:
    filled(journal, model)
    looked_up.clear()
    assert listed(journal) == listed(journal) == bodies(model)
    assert looked_up == []


def test_write_of_another_type_needs_no_lookup(journal: Journal, model: Model, looked_up: list[int]) -> None:
    filled(journal, model)
    looked_up.clear()
    journal.append([model.put("other", type_id=2)])
    assert listed(journal) == bodies(model)
    assert looked_up == []


def test_list_shows_every_write_of_its_type(journal: Journal, model: Model, looked_up: list[int]) -> None:
    filled(journal, model)
    for event in (lambda: model.put("n3"), lambda: model.put("new"), lambda: model.remove("n0")):
        journal.append([event()])
        for _ in range(2):
            assert listed(journal) == bodies(model)
            assert listed(journal, "default") == bodies(model)


def test_caller_may_change_a_returned_list(journal: Journal, model: Model) -> None:
    filled(journal, model)
    listed(journal).clear()
    assert listed(journal) == bodies(model)


def test_list_shows_a_removal_whose_event_was_compacted(journal: Journal, model: Model) -> None:
    filled(journal, model)
    journal.append([model.remove("n3"), model.put("other", type_id=2)])
    assert advance(journal, journal.head).done
    with journal.read() as view:
        assert view._mark(keys.pack_type(1)) == (
            10,
            9,
        )  # the newest event is the same as when the list was read
    assert listed(journal) == bodies(model)
    assert len(bodies(model)) == 9


def test_list_of_a_type_that_became_empty(journal: Journal, model: Model) -> None:
    filled(journal, model, count=2)
    journal.append([model.remove("n0"), model.remove("n1"), model.put("other", type_id=2)])
    assert advance(journal, journal.head).done
    assert listed(journal) == listed(journal) == []


def test_runs_hold_no_evicted_rows(journal: Journal, model: Model, looked_up: list[int]) -> None:
    journal.checked = state.CheckedRows(generation_bytes=5_000)
    filled(journal, model, filler="x" * 2_000)
    listed(journal)
    assert journal.statistics()["checked_runs"] == 0


def test_runs_are_bounded(journal: Journal, model: Model) -> None:
    filled(journal, model, count=200)
    with journal.read() as view:
        for limit in range(1, 150):
            view.page(1, None, limit=limit)
            view.page(1, None, limit=limit)
    assert 0 < journal.statistics()["checked_runs"] <= state.RUNS
