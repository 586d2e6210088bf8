"""Ordered: in a stream, and from one to the stream that resumes it, versions ascend."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile

from tests.robustness.chronicle import Chronicle
from tests.robustness.course import ADDED, BOOKMARK, Course, Seen, Sightings, Stream
from tests.robustness.promise import BrokenWatch


def ordered(sightings: Sightings, chronicle: Chronicle) -> None:
    for course in sightings.courses:
        reached = 0
        for stream in course.streams:
            reached = _ascends(course, stream, reached)


def _ascends(course: Course, stream: Stream, reached: int) -> int:
    """The version that a stream leads to."""
    for event in _changes(stream):
        behind = event.version < reached if event.type == BOOKMARK else event.version <= reached
        if behind:
            raise BrokenWatch("Ordered", f"in {course} {event} came behind version {reached}")
        reached = event.version
    return reached


def _changes(stream: Stream) -> Iterator[Seen]:
    """Without what may belong to the state that a stream began with, which comes in the order of a list."""
    if stream.start is not None:
        return iter(stream.events)
    return dropwhile(lambda event: event.type == ADDED, stream.events)
