"""Reliable: what a stream told is what the log has, change by change, through the selector."""

from __future__ import annotations

from tests.robustness.chronicle import Chronicle
from tests.robustness.course import BOOKMARK, Course, Seen, Sightings, Stream
from tests.robustness.expected import Expected
from tests.robustness.promise import BrokenWatch
from tests.robustness.validate.watch.origin import origin


def reliable(sightings: Sightings, chronicle: Chronicle) -> None:
    for course in sightings.courses:
        expected = chronicle.expected(course.interest)
        for stream in course.streams:
            _tells_all(course, stream, expected)


def _tells_all(course: Course, stream: Stream, expected: Expected) -> None:
    found = origin(stream, expected)
    changes = [event for event in found.changes if event.type != BOOKMARK] if found is not None else []
    if not changes:
        return
    wanted = expected.between(changes[0].version - 1, changes[-1].version)
    if changes != wanted:
        raise BrokenWatch("Reliable", f"{course} over {stream.transport} {difference(changes, wanted)}")


def difference(told: list[Seen], wanted: list[Seen]) -> str:
    """The first place where they part."""
    pairs = zip([*told, None], [*wanted, None], strict=False)
    place, (one, other) = next((place, pair) for place, pair in enumerate(pairs) if pair[0] != pair[1])
    detail = ""
    if one is not None and other is not None and one[:3] == other[:3]:
        detail = f": {one.body} instead of {other.body}"
    return f"was told {one} as event {place + 1}, where the log has {other}{detail}"
