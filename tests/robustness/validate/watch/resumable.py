"""Resumable: a stream that names a version goes on right behind it, or says 410 because it is too old."""

from __future__ import annotations

import re

from tests.robustness.chronicle import Chronicle
from tests.robustness.course import BOOKMARK, Course, Sightings, Stream
from tests.robustness.promise import BrokenWatch
from tests.robustness.validate.watch.reliable import difference

# Seconds by which a server may be late to notice that a version has left the window.
LATE = 0.3
_TOO_OLD = re.compile(r"too old resource version: (\d+) \((\d+)\)")


def resumable(sightings: Sightings, chronicle: Chronicle) -> None:
    for course in sightings.courses:
        for stream in course.streams:
            if stream.error is not None:
                _was_too_old(course, stream, sightings.window, chronicle)
            if stream.start is not None and stream.answered:
                _was_not_too_old(course, stream, sightings.window, chronicle)
                _goes_on(course, stream, stream.start, chronicle)


def _goes_on(course: Course, stream: Stream, start: int, chronicle: Chronicle) -> None:
    first = next(iter(stream.events), None)
    if first is None:
        return
    told = [] if first.type == BOOKMARK else [first]
    wanted = chronicle.expected(course.interest).between(start, first.version)
    if told != wanted:
        raise BrokenWatch("Resumable", f"{course}, resumed from {start}, {difference(told, wanted)}")


def _was_too_old(course: Course, stream: Stream, window: float, chronicle: Chronicle) -> None:
    """Its own message tells which version was too old, and where the window begins."""
    assert stream.error is not None
    found = _TOO_OLD.fullmatch(stream.error.get("message", ""))
    if stream.error.get("code") != 410 or found is None:
        raise BrokenWatch("Resumable", f"{course} was ended with {stream.error}")
    cursor, floor = int(found[1]), int(found[2])
    reached = stream.events[-1].version if stream.start is not None and stream.events else stream.start or 0
    begins = chronicle.offset_at(stream.ended - window)
    if not reached <= cursor < floor <= begins:
        told = f"it had reached {reached}, and the window began at {begins}"
        raise BrokenWatch("Resumable", f"{course} got “{stream.error['message']}”, but {told}")


def _was_not_too_old(course: Course, stream: Stream, window: float, chronicle: Chronicle) -> None:
    begins = chronicle.offset_at(stream.sent - window - LATE)
    if stream.start is not None and stream.start < begins and (stream.events or stream.error is None):
        if not stream.events and stream.ending != "in good order":
            return  # the answer had begun, and what was to follow never came
        raise BrokenWatch(
            "Resumable", f"{course} was resumed from {stream.start}, but the window began at {begins}"
        )
