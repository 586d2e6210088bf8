"""Where a stream began, and which of its events tell changes.

A stream that names a version begins there. One that begins with the state does not say of which version that is:
it is one at which the state was exactly what came first, with what came next as the next change. Where that is
true of several, the state may have been empty and the first object a change: then it is one that explains the rest too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.robustness.course import ADDED, BOOKMARK, Seen, Stream
from tests.robustness.expected import Expected, fold
from tests.robustness.objects import Document, Key


class Origin(NamedTuple):
    version: int
    changes: list[Seen]  # and bookmarks, behind the state


def origin(stream: Stream, expected: Expected) -> Origin | None:
    """None: no version explains how this stream began."""
    if stream.start is not None:
        return Origin(stream.start, stream.events)
    fitting = (
        Origin(version, stream.events[len(state) :])
        for version, state in _states(stream, expected)
        if _fits(stream, expected, version, state)
    )
    first = next(fitting, None)
    if first is None or _explains(first, expected):
        return first
    return next((other for other in fitting if _explains(other, expected)), first)


def _states(stream: Stream, expected: Expected) -> Iterator[tuple[int, dict[Key, Document]]]:
    """Those worth trying: at the least version it must have, and at every later one that changed them."""
    state = expected.state(stream.least)
    yield stream.least, state
    for event in expected.events:
        if event.version > stream.least:
            state = fold(state, [event])
            yield event.version, state


def _fits(stream: Stream, expected: Expected, version: int, state: dict[Key, Document]) -> bool:
    first, rest = stream.events[: len(state)], stream.events[len(state) :]
    synthetic = [(ADDED, key, state[key]) for key in sorted(state)][: len(first)]
    if [(event.type, event.key, event.body) for event in first] != synthetic:
        return False
    if not rest:
        return True
    following = expected.between(version, rest[0].version)
    return following == ([] if rest[0].type == BOOKMARK else [rest[0]])


def _explains(found: Origin, expected: Expected) -> bool:
    last = found.changes[-1].version if found.changes else found.version
    told = [event for event in found.changes if event.type != BOOKMARK]
    return told == expected.between(found.version, last)
