"""Bookmarkable: what a bookmark says has been sent has been sent."""

from __future__ import annotations

from tests.robustness.chronicle import Chronicle
from tests.robustness.course import BOOKMARK, Course, Seen, Sightings, Stream
from tests.robustness.expected import Expected
from tests.robustness.promise import BrokenWatch
from tests.robustness.validate.watch.origin import origin


def bookmarkable(sightings: Sightings, chronicle: Chronicle) -> None:
    for course in sightings.courses:
        expected = chronicle.expected(course.interest)
        for stream in course.streams:
            _holds(course, stream, expected)


def _holds(course: Course, stream: Stream, expected: Expected) -> None:
    found = origin(stream, expected)
    sent: list[Seen] = []
    for event in found.changes if found is not None else ():
        if event.type != BOOKMARK:
            sent.append(event)
        elif found is not None and (wanted := expected.between(found.version, event.version)) != sent:
            missing = [str(one) for one in wanted if one not in sent]
            raise BrokenWatch("Bookmarkable", f"{course} got {event} before {missing or 'its time'}")
