"""Atomic: lists and watches tell the same story."""

from __future__ import annotations

from collections import defaultdict

from tests.robustness.chronicle import Chronicle
from tests.robustness.course import Course, Listing, Seen, Sightings
from tests.robustness.expected import Expected, fold
from tests.robustness.interest import Interest
from tests.robustness.objects import Document, Key
from tests.robustness.promise import BrokenWatch
from tests.robustness.validate.watch.origin import Origin, origin


def atomic(sightings: Sightings, chronicle: Chronicle) -> None:
    listings: defaultdict[Interest, list[Listing]] = defaultdict(list)
    for listing in sightings.listings:
        listings[listing.interest].append(listing)
    for course in sightings.courses:
        if course.listing is not None:
            listings[course.interest].append(course.listing)
    for course in sightings.courses:
        if course.streams:
            _agrees(course, listings[course.interest], chronicle.expected(course.interest))


def _agrees(course: Course, listings: list[Listing], expected: Expected) -> None:
    """Each list at a version that the course passed shows what the course had told by then."""
    began = origin(course.streams[0], expected)
    if began is None:
        shown = [str(event) for event in course.streams[0].events[:30]]
        raise BrokenWatch("Atomic", f"{course} began with a state that never was: {shown}")
    reached = max((event.version for event in _changes(course, began)), default=0)
    for listing in listings:
        if began.version <= listing.version <= reached:
            held = _held(course, began, expected, listing.version)
            if held != listing.items:
                raise BrokenWatch(
                    "Atomic", f"{course} at {listing.version} {_difference(held, listing.items)}"
                )


def _changes(course: Course, began: Origin) -> list[Seen]:
    return [*began.changes, *(event for stream in course.streams[1:] for event in stream.events)]


def _held(course: Course, began: Origin, expected: Expected, version: int) -> dict[Key, Document]:
    first = course.streams[0]
    if first.start is not None:
        state = course.listing.items if course.listing is not None else expected.state(first.start)
    else:
        state = fold({}, first.events[: len(first.events) - len(began.changes)])
    return fold(state, (event for event in _changes(course, began) if event.version <= version))


def _difference(held: dict[Key, Document], items: dict[Key, Document]) -> str:
    wrong = [key for key in sorted({*held, *items}) if held.get(key) != items.get(key)]
    parts = [f"{key}: watched {_brief(held.get(key))}, listed {_brief(items.get(key))}" for key in wrong]
    return f"differs from a list: {parts}"


def _brief(body: Document | None) -> str:
    return "nothing" if body is None else f"version {body['metadata']['resourceVersion']}"
