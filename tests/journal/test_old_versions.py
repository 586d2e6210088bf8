"""Every version from the floor to the head equals a simple model, however it is rebuilt."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from rewound.journal import Journal, replay, retention, snapshot_writer
from rewound.journal.errors import Compacted, FutureVersion
from rewound.journal.repair import verify
from rewound.journal.replay import PastView
from rewound.journal.view import View
from tests.examples import examples
from tests.journal.model import Model, ram

NAMES = ["a", "a-b", "a.b", "b", "c"]
NAMESPACES = ["", "n", "n-m", "o"]

put = st.tuples(st.just("put"), st.sampled_from([1, 2]), st.sampled_from(NAMESPACES), st.sampled_from(NAMES))
remove = st.tuples(st.just("remove"), st.integers(0, 30))
retain = st.tuples(st.just("retain"), st.integers(0, 60), st.integers(1, 5))
look = st.tuples(st.just("look"), st.integers(0, 60))
snapshot = st.tuples(st.just("snapshot"), st.integers(1, 4))
steps = st.lists(st.one_of(put, put, put, remove, retain, look, snapshot), max_size=40)


@pytest.fixture(params=[20_000, 0], ids=["undone", "redone"])
def near(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "UNDO_EVENTS", request.param)


@pytest.mark.usefixtures("near")
@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_every_version_equals_the_model(history: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory(dir=ram()) as folder:
        journal, model = Journal.open(Path(folder)), Model()
        for name in ("things", "others"):
            journal.register_type(name)
        try:
            for step in history:
                play(journal, model, *step)
            with journal.read() as view:
                # In a mixed order: versions are also rebuilt from later and earlier cached ones.
                for offset in sorted(range(model.head + 1), key=lambda offset: offset * 7 % 11):
                    compare(view, model, offset)
                report = verify.verify(view)
                assert report.differences == []
        finally:
            journal.close()


def play(journal: Journal, model: Model, what: object, *how: object) -> None:
    match what, how:
        case "put", (int() as type_id, str() as namespace, str() as name):
            journal.append([model.put(name, namespace=namespace, type_id=type_id)])
        case "remove", (int() as which,):
            living = sorted(model.state())
            if living:
                type_id, namespace, name = living[which % len(living)]
                journal.append([model.remove(name, namespace=namespace, type_id=type_id)])
        case "retain", (int() as floor, int() as at_once):
            retention.advance(journal, floor, at_once)
        case "look", (int() as offset,):
            with journal.read() as view:
                compare(view, model, min(offset, model.head))
        case "snapshot", (int() as rows,):
            for _ in snapshot_writer.take(journal, chunk_rows=rows):
                pass


def compare(view: View, model: Model, offset: int) -> None:
    if offset < view.floor:
        with pytest.raises(Compacted) as refused:
            view.at(offset)
        assert refused.value.floor == view.floor
        return
    past = view.at(offset)
    assert past.head == offset
    for type_id in (1, 2, 3):
        for namespace in (None, *NAMESPACES):
            expected = list(model.rows(type_id, namespace, offset))
            assert past.count(type_id, namespace) == len(expected)
            assert list(past.rows(type_id, namespace)) == expected
            compare_pages(past, type_id, namespace, expected)
        for namespace in NAMESPACES:
            for name in NAMES:
                expected_row = model.state(offset).get((type_id, namespace, name))
                assert past.get(type_id, namespace, name) == expected_row


def compare_pages(past: View | PastView, type_id: int, namespace: str | None, expected: list) -> None:  # type: ignore[type-arg]
    for wanted in (None, b"even"):
        matching = [(space, name, row) for space, name, row in expected if wanted in (None, row.facts)]
        match = None if wanted is None else lambda facts, _: facts == b"even"
        for limit in (1, 2, None):
            left, after = matching, None
            while True:
                page = past.page(type_id, namespace, after=after, limit=limit, match=match)
                assert page.bodies == [row.body for _, _, row in left[:limit]]
                assert page.more == (limit is not None and len(left) > limit)
                if not page.more:
                    break
                left, after = left[limit:], page.last


def test_future_version_is_refused(journal: Journal, model: Model) -> None:
    journal.append([model.put("a")])
    with journal.read() as view, pytest.raises(FutureVersion):
        view.at(2)


def test_older_view_is_exact_after_a_newer_view_extended_the_version(journal: Journal, model: Model) -> None:
    journal.append([model.put("a"), model.put("b")])
    journal.append([model.put("a")])
    with journal.read() as older:
        journal.append([model.put("c"), model.remove("b")])
        with journal.read() as newer:
            compare(newer, model, 2)
        compare(older, model, 2)
        compare(older, model, 1)


def test_list_in_progress_is_exact_while_a_newer_view_extends_the_version(
    journal: Journal, model: Model
) -> None:
    journal.append([model.put(f"n{i:03d}") for i in range(0, 2 * replay.CHUNK_ROWS, 2)])
    at = model.head
    journal.append([model.put(f"n{i:03d}") for i in range(0, 2 * replay.CHUNK_ROWS, 4)])
    expected = list(model.rows(1, at=at))
    with journal.read() as slow:
        under_way = slow.at(at).rows(1)
        read = [next(under_way)]
        journal.append([model.put(f"n{i:03d}") for i in range(1, 100)])
        journal.append([model.remove(f"n{i:03d}") for i in range(200, 2 * replay.CHUNK_ROWS, 2)])
        with journal.read() as quick:
            assert list(quick.at(at).rows(1)) == expected
        read += under_way
    assert read == expected


def test_cached_versions_are_bounded(journal: Journal, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "VERSION_KEYS", 10)
    for i in range(40):
        journal.append([model.put(f"n{i % 7}")])
    with journal.read() as view:
        for offset in range(model.head):
            compare(view, model, offset)
    statistics = journal.statistics()
    assert statistics["old_versions"] <= replay.VERSIONS
    assert statistics["old_version_keys"] <= 10 + 7


def test_removed_objects_are_read_in_chunks(journal: Journal, model: Model) -> None:
    count = 3 * replay.CHUNK_ROWS
    journal.append([model.put(f"n{i:04d}") for i in range(count)])
    journal.append([model.remove(f"n{i:04d}") for i in range(count)])
    with journal.read() as view:
        page = view.at(count).page(1, None, limit=2)
        assert (page.last, page.more) == (("default", "n0001"), True)
        assert len(view.at(count).page(1, None).bodies) == count
