"""The cache of checked rows is bounded and never stale."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rewound.journal import Journal, state
from tests.examples import examples
from tests.journal.model import Model, ram


def test_cache_of_checked_rows_is_bounded(journal: Journal, model: Model) -> None:
    journal.checked = state.CheckedRows(generation_bytes=10_000)
    for _ in range(5):
        journal.append([model.put(f"n{i:02d}", filler="x" * 900) for i in range(60)])
        with journal.read() as view:
            assert view.page(1, None).bodies == [row.body for _, _, row in model.rows(1)]
            view.page(1, None)
        assert 0 < journal.statistics()["checked_bytes"] < 12_000
        assert journal.statistics()["checked_rows"] < 20


def test_rows_read_once_are_not_cached(journal: Journal, model: Model) -> None:
    journal.append([model.put(f"n{i:02d}") for i in range(60)])
    with journal.read() as view:
        view.page(1, None)
        assert journal.statistics()["checked_rows"] == 0
        view.page(1, None)
        assert journal.statistics()["checked_rows"] == 60


def test_rows_of_long_scans_are_not_cached(journal: Journal, model: Model) -> None:
    template = model.put("a")
    count = state.CACHEABLE_ROWS + 1
    journal.append(
        [
            type(template)(i, 1, "create", "b", f"n{i:05d}", 0, False, i, "u", "m", b"f", b"{}")
            for i in range(1, count + 1)
        ]
    )
    with journal.read() as view:
        for _ in range(3):
            assert len(view.page(1, None).bodies) == count
    assert journal.statistics()["checked_rows"] == 0


@examples(15)
@given(st.sets(st.integers(0, 9)))
def test_changed_rows_are_read_again(changed: set[int]) -> None:
    """Any of the rows of a cached chunk may be missing from the cache."""
    with tempfile.TemporaryDirectory(dir=ram()) as folder:
        journal, model = Journal.open(Path(folder)), Model()
        journal.append([model.put(f"n{i}") for i in range(10)])
        with journal.read() as view:
            for _ in range(2):
                view.page(1, None)
        journal.append([model.put(f"n{i}") for i in sorted(changed)])
        with journal.read() as view:
            assert view.page(1, None).bodies == [row.body for _, _, row in model.rows(1)]
        journal.close()
