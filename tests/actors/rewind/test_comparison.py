"""Comparing two moments by the index gives the same result as comparing the whole state at both."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rewound.actors.rewind import comparison as module
from rewound.actors.rewind.comparison import (
    COMPARISONS,
    Compared,
    compared,
    compared_tracks,
    read_ends,
    with_names,
)
from rewound.actors.rewind.long_work import run
from rewound.actors.rewind.timeline import CREATED, TimelineIndex, Track, patterns
from rewound.journal import Journal, retention
from tests.actors.rewind.test_timeline_index import some_events
from tests.journal.model import Model

Rows = set[tuple[str, int, str, str, int, int]]


def of_states(model: Model, first: int, last: int) -> Rows:
    before, after = model.state(at=first), model.state(at=last)
    found: Rows = set()
    for key in before | after:
        versions = tuple(state[key].offset if key in state else 0 for state in (before, after))
        if versions[0] != versions[1]:
            found.add(
                (("changed" if all(versions) else "removed" if versions[0] else "added"), *key, *versions)
            )
    return found


def test_equals_the_comparison_of_both_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COPIED", 3)
    chance, model = random.Random(11), Model()
    journal = Journal.open(tmp_path / "journal")
    journal.append(some_events(model, chance, 150))
    index = TimelineIndex(journal)
    for floor in (0, 50):
        while floor and not retention.advance(journal, floor).done:
            pass
        run(index.update())
        for _ in range(40):
            first, last = sorted(chance.randrange(floor, 151) for _ in range(2))
            found: Rows = set()
            for track in index.tracks():
                for one in run(compared(track, first, last, None)):
                    ends = read_ends(journal, one)
                    assert ends is not None
                    versions = (0 if end is None else end.offset for end in (ends.before, ends.after))
                    key = track.type_id, track.namespace, ends.last.name
                    found.add((COMPARISONS[one.comparison], *key, *versions))
                    named = run(with_names(journal, [one], patterns("a*", "!b")))
                    assert bool(named) == (ends.last.name == "a")
            assert found == of_states(model, first, last)
    journal.close()


def test_looks_at_many_tracks_in_turns() -> None:
    """Including types without events between the moments, and with names that are hashed."""
    tracks = [Track(b"\0\1" + str(number).encode()) for number in range(1000)]
    tracks[500].add(5, CREATED, 7)
    pieces, result, found = 0, None, list[Compared]()
    steps = compared_tracks(tracks, 0, 10, lambda track: frozenset({7}), None)
    try:
        while True:
            result = steps.send(result).run()
            pieces += 1
    except StopIteration as end:
        found = end.value
    assert [(one.track, one.first) for one in found] == [(tracks[500], 5)]
    assert pieces >= 1000 / 100
