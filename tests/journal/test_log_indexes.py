"""The log can be read ascending and descending: all of it, by type and by object."""

from __future__ import annotations

import random

import pytest

from rewound.journal import Journal, View, history, keys
from rewound.journal.history import Index
from tests.journal.model import Model


@pytest.fixture
def filled(journal: Journal, model: Model) -> Journal:
    generator = random.Random(7)
    events = []
    for _ in range(200):
        name, kind = generator.choice(["a", "b", "bb", "c"]), generator.choice([1, 2, 3])
        there = (kind, "default", name) in model.state()
        if there and generator.random() < 0.3:
            events.append(model.remove(name, type_id=kind))
        else:
            events.append(model.put(name, type_id=kind))
    journal.append(events)
    return journal


@pytest.mark.parametrize("way", ["whole", "type", "object"])
def test_offsets_ascending_and_descending_from_any_start(filled: Journal, model: Model, way: str) -> None:
    with filled.read() as view:
        object_key = keys.of_object(2, "default", "b")
        index, expected = {
            "whole": (history.whole_log(view), [e.offset for e in model.events]),
            "type": (history.of_type(view, 2), [e.offset for e in model.events if e.type_id == 2]),
            "object": (
                history.of_object(view, object_key),
                [e.offset for e in model.events if (e.type_id, e.name) == (2, "b")],
            ),
        }[way]
        assert expected
        for start in (0, 1, 50, expected[3], expected[3] + 1, 200, 201, 10_000, keys.MAX_OFFSET):
            assert list(history.ascending(view, index, start)) == [o for o in expected if o >= start]
            assert list(history.descending(view, index, start)) == [
                o for o in reversed(expected) if o <= start
            ]


def test_empty_log_has_no_offsets(journal: Journal) -> None:
    with journal.read() as view:
        for index in (
            history.whole_log(view),
            history.of_type(view, 1),
            history.of_object(view, b"\0\1a\0b"),
        ):
            assert offsets(view, index) == ([], [])


def offsets(view: View, index: Index) -> tuple[list[int], list[int]]:
    return list(history.ascending(view, index, 0)), list(history.descending(view, index, keys.MAX_OFFSET))


@pytest.mark.parametrize(("after", "upto"), [(0, 200), (0, 0), (50, 120), (199, 200), (120, 120)])
def test_changed_objects_between_two_versions(filled: Journal, model: Model, after: int, upto: int) -> None:
    before, later = model.state(after), model.state(upto)
    with filled.read() as view:
        found = {
            (kind, *keys.names_of(key)): ends
            for kind in (1, 2, 3)
            for key, ends in history.changed_objects(view, kind, after, upto).items()
        }
    for key, ends in found.items():
        assert ends[:2] == tuple(state[key].offset if key in state else 0 for state in (before, later))
        of_it = [e.offset for e in model.events if (e.type_id, e.namespace, e.name) == key]
        assert ends.last == max(offset for offset in of_it if offset <= upto)
    changed = {key for key in before.keys() | later.keys() if before.get(key) != later.get(key)}
    assert changed <= found.keys()
