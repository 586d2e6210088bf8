"""A list is looked up row by row once, and again as soon as anything of its type was written, never later."""

from __future__ import annotations

from typing import Any

import pytest

from journal import Journal, keys, state
from journal.retention import advance
from tests.journal.histories import Model


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each lookup gave."""
    lookups: list[int] = []
    rows = state.Checked._rows

    def counted(self: state.Checked, *where: Any) -> list[state.Entry]:
        found = rows(self, *where)
        lookups.append(len(found))
        return found

    monkeypatch.setattr(state.Checked, "_rows", counted)
    return lookups


def listed(journal: Journal, namespace: str | None = None) -> list[bytes]:
    with journal.read() as view:
        return view.page(1, namespace).bodies


def bodies(model: Model) -> list[bytes]:
    return [row.body for _, _, row in model.rows(1)]


def filled(journal: Journal, model: Model, count: int = 10, filler: str = "") -> None:
    journal.append([model.put(f"n{i}", filler=filler) for i in range(count)])
    for _ in range(2):  # what is read twice is kept
        assert listed(journal) == bodies(model)


def test_an_unchanged_list(journal: Journal, model: Model, looked_up: list[int]) -> None:
    filled(journal, model)
    looked_up.clear()
    assert listed(journal) == listed(journal) == bodies(model)
    assert looked_up == []


def test_a_write_of_another_type(journal: Journal, model: Model, looked_up: list[int]) -> None:
    filled(journal, model)
    looked_up.clear()
    journal.append([model.put("other", type_id=2)])
    assert listed(journal) == bodies(model)
    assert looked_up == []


def test_every_write_of_the_type_is_seen(journal: Journal, model: Model, looked_up: list[int]) -> None:
    filled(journal, model)
    for event in (lambda: model.put("n3"), lambda: model.put("new"), lambda: model.remove("n0")):
        journal.append([event()])
        for _ in range(2):
            assert listed(journal) == bodies(model)
            assert listed(journal, "default") == bodies(model)


def test_whoever_gets_a_list_may_change_it(journal: Journal, model: Model) -> None:
    filled(journal, model)
    listed(journal).clear()
    assert listed(journal) == bodies(model)


def test_a_removal_that_retention_has_forgotten(journal: Journal, model: Model) -> None:
    filled(journal, model)
    journal.append([model.remove("n3"), model.put("other", type_id=2)])
    assert advance(journal, journal.head).done
    with journal.read() as view:
        assert view._mark(keys.pack_type(1)) == (10, 9)  # the newest event is that of when the list was read
    assert listed(journal) == bodies(model)
    assert len(bodies(model)) == 9


def test_a_type_that_is_empty_again(journal: Journal, model: Model) -> None:
    filled(journal, model, count=2)
    journal.append([model.remove("n0"), model.remove("n1"), model.put("other", type_id=2)])
    assert advance(journal, journal.head).done
    assert listed(journal) == listed(journal) == []


def test_rows_that_no_generation_keeps(journal: Journal, model: Model, looked_up: list[int]) -> None:
    journal.checked = state.Checked(generation_bytes=5_000)
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
