"""A scan stops when its time is used up, at any position, and continues from there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rewound.journal import Journal, replay, snapshot_writer, state
from rewound.journal.replay import PastView
from tests.journal.model import Model

COUNT = 60


def fill(journal: Journal, model: Model) -> int:
    """A journal whose current state differs from the returned version: some objects changed, some removed, some new."""
    journal.append([model.put(f"n{i:02d}") for i in range(COUNT)])
    version = model.head
    journal.append([model.put(f"n{i:02d}") for i in range(0, COUNT, 3)])
    journal.append([model.remove(f"n{i:02d}") for i in range(30, 45)])
    journal.append([model.put(f"m{i:02d}") for i in range(10)])
    return version


def pages(
    journal: Journal, version: int, match: Callable[[bytes, bytes], bool] | None, size: int | None = None
) -> list[list[bytes]]:
    """Read with a clock that stops every scan at its first check."""
    found: list[list[bytes]] = []
    after = None
    while True:
        with journal.read() as view:
            page = view.at(version).page(1, None, after=after, match=match, stop=lambda: True, size=size)
        found.append(page.bodies)
        if not page.more:
            return found
        assert page.stopped
        assert page.last is not None
        after = page.last


@pytest.mark.parametrize("old", [True, False])
def test_pieces_of_a_stopped_scan_are_the_whole(journal: Journal, model: Model, old: bool) -> None:
    version = fill(journal, model)
    version = version if old else model.head
    for match in (None, lambda facts, _: facts == b"even", lambda *_: False):
        expected = [
            row.body for _, _, row in model.rows(1, at=version) if match is None or match(row.facts, row.body)
        ]
        for size in (None, 1, 100):
            found = pages(journal, version, match, size)
            assert [body for bodies in found for body in bodies] == expected


def test_scan_that_finds_nothing_stops_after_each_row(journal: Journal, model: Model) -> None:
    fill(journal, model)
    compared: list[bytes] = []

    def match(facts: bytes, _: bytes) -> bool:
        compared.append(facts)
        return False

    found = pages(journal, model.head, match)
    assert len(found) > 50
    assert len(compared) == len(list(model.rows(1)))


def test_scan_of_a_size_ends_with_the_object_that_reaches_it(journal: Journal, model: Model) -> None:
    fill(journal, model)
    with journal.read() as view:
        first = view.page(1, None).bodies[0]
    assert {len(bodies) for bodies in pages(journal, model.head, None, len(first))} <= {0, 1, 2}


def test_chunk_of_large_rows_is_short(
    journal: Journal, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(journal, model)
    monkeypatch.setattr(state, "CHUNK_BYTES", 1)
    expected = [row.body for _, _, row in model.rows(1)]
    for _ in range(3):  # uncached, then cached
        assert pages(journal, model.head, None)[:-1] == [[body] for body in expected]


@pytest.mark.parametrize("undo", [20_000, 0])
def test_old_version_is_rebuilt_in_steps(
    journal: Journal, model: Model, monkeypatch: pytest.MonkeyPatch, undo: int
) -> None:
    monkeypatch.setattr(replay, "UNDO_EVENTS", undo)
    monkeypatch.setattr(replay, "STEP_EVENTS", 1)
    monkeypatch.setattr(replay, "FRESH_KEYS", 3)
    monkeypatch.setattr(replay, "RUN_KEYS", 2)
    journal.append([model.put("n00")])
    list(snapshot_writer.take(journal, chunk_rows=4))
    fill(journal, model)
    version = model.head - 4 if undo else 30
    journal.append([model.put(f"n{i:02d}") for i in range(COUNT)])
    steps = 0
    while True:
        with journal.read() as view:
            past = view.at(version)
            assert isinstance(past, PastView)
            steps += 1
            if past.prepare(1, lambda: True):
                assert past.page(1).bodies == [row.body for _, _, row in model.rows(1, at=version)]
                assert past.count(1) == len(list(model.rows(1, at=version)))
                break
        journal.append([model.put("late", type_id=2)])
    assert steps > 20


def test_failed_step_leaves_no_half_version(
    journal: Journal, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = fill(journal, model)
    questions = iter([False] * 1 + [True])
    with journal.read() as view:
        past = view.at(version)
        assert isinstance(past, PastView)
        monkeypatch.setattr(replay, "STEP_EVENTS", 1)

        def fail() -> bool:
            if next(questions):
                raise OSError("broken")
            return False

        with pytest.raises(OSError, match="broken"):
            past.prepare(1, fail)
        assert past.page(1).bodies == [row.body for _, _, row in model.rows(1, at=version)]
