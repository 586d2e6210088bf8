from __future__ import annotations

from collections.abc import Iterator

import pytest

from rewound.journal import Journal, history, keys, replay, retention, snapshot_writer, snapshots
from rewound.journal.repair import verify
from tests.journal.model import Model


def take(journal: Journal, rows: int = 3) -> None:
    for _ in snapshot_writer.take(journal, chunk_rows=rows):
        pass


def expected(model: Model, type_id: int, at: int) -> dict[bytes, int]:
    return {
        keys.of_object(type_id, space, name): row.offset for space, name, row in model.rows(type_id, at=at)
    }


def test_snapshot_has_the_state_at_its_offset(journal: Journal, model: Model) -> None:
    journal.append([model.put(f"n{i}", type_id=1 + i % 3) for i in range(20)])
    journal.append([model.remove("n3"), model.put("n4", type_id=2)])
    take(journal)
    with journal.read() as view:
        assert snapshots.finished(view) == [22]
        assert snapshots.header(view, 22).rows == 19
        for type_id in (1, 2, 3, 4):
            assert snapshots.load(view, 22, type_id) == expected(model, type_id, 22)


def test_snapshot_excludes_later_writes(journal: Journal, model: Model) -> None:
    journal.append([model.put(f"n{i}", type_id=1 + i % 2) for i in range(20)])
    at = model.head
    for step, _ in enumerate(snapshot_writer.take(journal, chunk_rows=2)):
        journal.append([model.put(f"n{step}"), model.put(f"new{step}"), model.put(f"m{step}", type_id=2)])
        if step % 2:
            journal.append([model.remove(f"n{step}"), model.remove(f"n{18 - step}")] if step != 9 else [])
    with journal.read() as view:
        assert snapshots.finished(view) == [at]
        for type_id in (1, 2):
            assert snapshots.load(view, at, type_id) == expected(model, type_id, at)
        assert verify.verify(view).differences == []


def test_replay_starts_from_the_nearest_snapshot(
    journal: Journal, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append([model.put(f"n{i}") for i in range(10)])
    take(journal)
    journal.append([model.put("later")])
    take(journal)
    journal.append([model.put(f"n{i % 10}") for i in range(50)])
    monkeypatch.setattr(replay, "UNDO_EVENTS", 0)
    read: list[tuple[int, int]] = []

    def watched(view: object, type_id: int, after: int, upto: int) -> Iterator[object]:
        read.append((after, upto))
        return original(view, type_id, after, upto)  # type: ignore[arg-type]

    original = history.links
    monkeypatch.setattr(history, "links", watched)
    with journal.read() as view:
        assert list(view.at(12).rows(1)) == list(model.rows(1, at=12))
    assert read == [(11, 12)]


def test_unfinished_snapshot_is_ignored_and_then_removed(journal: Journal, model: Model) -> None:
    journal.append([model.put(f"n{i}") for i in range(10)])
    halted = snapshot_writer.take(journal, chunk_rows=3)
    next(halted)
    with journal.read() as view:
        assert snapshots.finished(view) == []
        assert snapshots.nearest(view, 99) == 0
    journal.append([model.put("more")])
    take(journal)
    with journal.read() as view:
        assert snapshots.finished(view) == [11]
        assert view.txn.stat(journal.environment.databases.snapshots)["entries"] == 5


def test_snapshot_below_the_new_floor_is_abandoned(journal: Journal, model: Model) -> None:
    journal.append([model.put(f"n{i}") for i in range(10)])
    steps = snapshot_writer.take(journal, chunk_rows=3)
    next(steps)
    journal.append([model.put(f"n{i}") for i in range(10)])
    while not retention.advance(journal, 15).done:
        pass
    assert list(steps) == []
    with journal.read() as view:
        assert view.txn.stat(journal.environment.databases.snapshots)["entries"] == 0


def test_snapshots_below_the_floor_are_not_used(journal: Journal, model: Model) -> None:
    journal.append([model.put(f"n{i}") for i in range(10)])
    take(journal)
    journal.append([model.remove("n0"), model.put("n1"), model.put("n2")])
    retention.advance(journal, 12)
    with journal.read() as view:
        assert snapshots.nearest(view, 13) == 0
        assert verify.verify(view).differences == []
    snapshot_writer.prune(journal, keep=5)
    with journal.read() as view:
        assert snapshots.finished(view) == []


def test_prune_keeps_the_newest_snapshots(journal: Journal, model: Model) -> None:
    for i in range(4):
        journal.append([model.put(f"n{i}")])
        take(journal)
    snapshot_writer.prune(journal, keep=2)
    with journal.read() as view:
        assert snapshots.finished(view) == [3, 4]
        assert (snapshots.nearest(view, 3), snapshots.nearest(view, 2)) == (3, 0)


def test_snapshot_is_due_after_enough_events(journal: Journal, model: Model) -> None:
    with journal.read() as view:
        assert not snapshots.due(view, 3)
    journal.append([model.put(f"n{i}") for i in range(3)])
    with journal.read() as view:
        assert snapshots.due(view, 3)
    take(journal)
    with journal.read() as view:
        assert not snapshots.due(view, 3)


def test_snapshot_of_many_objects_waits_for_half_as_many_events(journal: Journal, model: Model) -> None:
    journal.append([model.put(f"n{i}") for i in range(10)])
    take(journal)
    for i in range(4):
        journal.append([model.put(f"n{i}")])
        with journal.read() as view:
            assert not snapshots.due(view, 3)
    journal.append([model.put("n0")])
    with journal.read() as view:
        assert snapshots.due(view, 3)


def test_no_snapshot_without_new_events(journal: Journal, model: Model) -> None:
    take(journal)
    journal.append([model.put("a")])
    take(journal)
    assert list(snapshot_writer.take(journal)) == []
    with journal.read() as view:
        assert snapshots.finished(view) == [1]
