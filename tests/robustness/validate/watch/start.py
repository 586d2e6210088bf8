"""The version at which a stream began, and which of its events are changes.

A stream with a resourceVersion begins there. The version of an initial state is not in the stream: it is one at
which the state was exactly the first events, and whose next change is the next event. If there are several, the
initial state may have been empty and the first object a change: then it is one that also fits the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.robustness.expected_events import ExpectedEvents, fold
from tests.robustness.objects import Document, Key
from tests.robustness.observations import ADDED, BOOKMARK, Stream, WatchEvent


class StreamStart(NamedTuple):
    version: int
    changes: list[WatchEvent]  # and bookmarks, after the initial state


def stream_start(stream: Stream, expected: ExpectedEvents) -> StreamStart | None:
    """None: no version fits the first events of this stream."""
    if stream.start is not None:
        return StreamStart(stream.start, stream.events)
    fitting = (
        StreamStart(version, stream.events[len(state) :])
        for version, state in _states(stream, expected)
        if _fits(stream, expected, version, state)
    )
    first = next(fitting, None)
    if first is None or _explains(first, expected):
        return first
    return next((other for other in fitting if _explains(other, expected)), first)


def _states(stream: Stream, expected: ExpectedEvents) -> Iterator[tuple[int, dict[Key, Document]]]:
    """Candidates: the state at the least possible version, and after every later change."""
    state = expected.state(stream.least)
    yield stream.least, state
    for event in expected.events:
        if event.version > stream.least:
            state = fold(state, [event])
            yield event.version, state


def _fits(stream: Stream, expected: ExpectedEvents, version: int, state: dict[Key, Document]) -> bool:
    first, rest = stream.events[: len(state)], stream.events[len(state) :]
    synthetic = [(ADDED, key, state[key]) for key in sorted(state)][: len(first)]
    if [(event.type, event.key, event.body) for event in first] != synthetic:
        return False
    if not rest:
        return True
    following = expected.between(version, rest[0].version)
    return following == ([] if rest[0].type == BOOKMARK else [rest[0]])


def _explains(found: StreamStart, expected: ExpectedEvents) -> bool:
    last = found.changes[-1].version if found.changes else found.version
    changes = [event for event in found.changes if event.type != BOOKMARK]
    return changes == expected.between(found.version, last)
