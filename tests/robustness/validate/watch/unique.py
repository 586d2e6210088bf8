"""Unique: a client that resumes is told each change of each object once."""

from __future__ import annotations

from tests.robustness.chronicle import Chronicle
from tests.robustness.course import BOOKMARK, Sightings
from tests.robustness.objects import Key
from tests.robustness.promise import BrokenWatch


def unique(sightings: Sightings, chronicle: Chronicle) -> None:
    for course in sightings.courses:
        told: set[tuple[Key, int]] = set()
        for event in course.events:
            if event.type == BOOKMARK:
                continue
            if (event.key, event.version) in told:
                raise BrokenWatch("Unique", f"{course} was told {event} twice")
            told.add((event.key, event.version))
