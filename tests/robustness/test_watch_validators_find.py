"""Each validator of watches finds what breaks its guarantee, and lets pass what keeps it."""

from __future__ import annotations

import pytest

from tests.robustness.chronicle import Chronicle
from tests.robustness.course import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    Course,
    Listing,
    Seen,
    Sightings,
    Stream,
)
from tests.robustness.expected import Entry
from tests.robustness.histories import content, key, shown
from tests.robustness.interest import Interest
from tests.robustness.objects import Document, bare
from tests.robustness.promise import BrokenWatch, watch_promises
from tests.robustness.validate.watch import WATCH_VALIDATORS, validate_watches

ALL, RED = Interest("configmaps"), Interest("configmaps", labels="color=red")
WINDOW = 100.0
SECOND = 1_000_000
NOW = 1000.0  # long after all events, unless a test says otherwise

# The log: r0 is made red at 5, turns blue at 6 and red again at 8; r1 is made at 7 and removed at 9.
BODIES = {
    5: bare(shown(content(1), 5)),
    6: bare(shown(content(2, color="blue"), 6)),
    7: bare(shown(content(3), 7, name="r1", uid="u2")),
    8: bare(shown(content(4), 8)),
    9: bare(shown(content(3), 9, name="r1", uid="u2")),
}
RED_AT_6 = bare(shown(content(1), 6))


def log(bodies: dict[int, Document] = BODIES, *, apart: float = 0.0) -> Chronicle:
    """`apart`: seconds between two events, the last of which is now."""
    chronicle = Chronicle()
    for offset, body in bodies.items():
        entry = Entry(offset, key(body["metadata"]["name"]), offset == 9, body)
        chronicle.add(int((NOW - (9 - offset) * apart) * SECOND), offset, entry)
    return chronicle


def told(kind: str, version: int, body: Document | None = None) -> Seen:
    if kind == BOOKMARK:
        return Seen(kind, version, key("")._replace(namespace=""), {})
    body = body or BODIES[version]
    return Seen(kind, version, key(body["metadata"]["name"]), body)


EVERYTHING = [told(ADDED, 5), told(MODIFIED, 6), told(ADDED, 7), told(MODIFIED, 8), told(DELETED, 9)]
EVERYTHING_RED = [
    told(ADDED, 5),
    told(DELETED, 6, RED_AT_6),
    told(ADDED, 7),
    told(ADDED, 8),
    told(DELETED, 9),
]


def stream(start: int | None, *events: Seen, error: Document | None = None, least: int = 0) -> Stream:
    return Stream("by hand", start, least, NOW, NOW, 200, list(events), error, "in good order")


def course(*streams: Stream, interest: Interest = ALL, listing: Listing | None = None) -> Course:
    return Course("a watcher", interest, "by hand", listing, list(streams))


def too_old(cursor: int, floor: int) -> Document:
    return {"code": 410, "message": f"too old resource version: {cursor} ({floor})"}


def listed(version: int, *shows: int, interest: Interest = ALL) -> Listing:
    items = {key(BODIES[one]["metadata"]["name"]): BODIES[one] for one in shows}
    return Listing(interest, version, items)


KEPT = {
    "everything": course(stream(0, *EVERYTHING)),
    "through a selector": course(stream(0, *EVERYTHING_RED), interest=RED),
    "resumed": course(stream(0, *EVERYTHING[:2]), stream(6, *EVERYTHING[2:])),
    "resumed from a bookmark": course(
        stream(6, told(BOOKMARK, 6), told(ADDED, 7), told(BOOKMARK, 7)), stream(7, told(MODIFIED, 8))
    ),
    "the state and what follows": course(stream(None, told(ADDED, 6), told(ADDED, 7), *EVERYTHING[3:])),
    "a part of the state": course(stream(None, told(ADDED, 6), least=7)),
    "an empty state": course(stream(None, told(ADDED, 5))),
}

BROKEN: dict[str, tuple[str, Course]] = {
    "goes back": ("Ordered", course(stream(0, *EVERYTHING[:3], told(MODIFIED, 6)))),
    "goes back when resumed": ("Ordered", course(stream(0, *EVERYTHING[:3]), stream(5, told(MODIFIED, 6)))),
    "bookmark goes back": ("Ordered", course(stream(0, *EVERYTHING[:3], told(BOOKMARK, 6)))),
    "state is told again": (
        "Unique",
        course(stream(None, told(ADDED, 6), told(ADDED, 7), told(ADDED, 7))),
    ),
    "one is missing": ("Reliable", course(stream(0, told(ADDED, 5), told(ADDED, 7)))),
    "wrong type": ("Reliable", course(stream(0, told(ADDED, 5), told(ADDED, 6)))),
    "wrong content": ("Reliable", course(stream(0, told(ADDED, 5), told(MODIFIED, 6, RED_AT_6)))),
    "one that left is not told": (
        "Reliable",
        course(stream(0, told(ADDED, 5), told(ADDED, 7)), interest=RED),
    ),
    "one that left shows what it became": (
        "Reliable",
        course(stream(0, told(ADDED, 5), told(DELETED, 6)), interest=RED),
    ),
    "entering is told as a change": (
        "Reliable",
        course(stream(6, told(ADDED, 7), told(MODIFIED, 8)), interest=RED),
    ),
    "another selection's": ("Reliable", course(stream(5, told(MODIFIED, 6)), interest=RED)),
    "gap when resumed": ("Resumable", course(stream(0, told(ADDED, 5)), stream(5, told(ADDED, 7)))),
    "ended for no reason": ("Resumable", course(stream(0, error={"code": 500, "message": "oh"}))),
    "410 within the window": ("Resumable", course(stream(5, error=too_old(5, 7)))),
    "410 that contradicts itself": ("Resumable", course(stream(8, error=too_old(8, 7)))),
    "bookmark too early": ("Bookmarkable", course(stream(0, told(ADDED, 5), told(BOOKMARK, 7)))),
    "bookmark before the first": ("Bookmarkable", course(stream(8, told(BOOKMARK, 9)))),
    "state that never was": ("Atomic", course(stream(None, told(ADDED, 5), told(ADDED, 7), least=7))),
    "state in disorder": ("Atomic", course(stream(None, told(ADDED, 7), told(ADDED, 6)))),
    "state that is too old": ("Atomic", course(stream(None, told(ADDED, 5), least=8))),
    "gap behind the state": ("Reliable", course(stream(None, told(ADDED, 5), told(ADDED, 7)))),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    validate_watches(Sightings(WINDOW, [KEPT[name]]), log())


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    promise, seen = BROKEN[name]
    assert_broken(promise, seen, log())


def assert_broken(promise: str, seen: Course, chronicle: Chronicle, *listings: Listing) -> None:
    with pytest.raises(BrokenWatch) as broken:
        WATCH_VALIDATORS[promise](Sightings(WINDOW, [seen], list(listings)), chronicle)
    assert broken.value.name == promise
    assert watch_promises()[promise] in str(broken.value)


def test_a_state_that_looks_like_a_change_at_first() -> None:
    """Its first object is also the first event there ever was."""
    bodies = {
        5: BODIES[5],
        6: bare(shown(content(2), 6, name="r1", uid="u2")),
        7: bare(shown(content(3), 7, name="r1", uid="u2")),
    }
    seen = course(stream(None, told(ADDED, 5, bodies[5]), told(ADDED, 7, bodies[7])))
    validate_watches(
        Sightings(WINDOW, [seen], [Listing(ALL, 7, {key(): bodies[5], key("r1"): bodies[7]})]), log(bodies)
    )


def test_a_list_that_agrees() -> None:
    seen = course(stream(0, *EVERYTHING))
    lists = [listed(6, 6), listed(7, 6, 7), listed(8, 7, 8), listed(9, 8)]
    validate_watches(Sightings(WINDOW, [seen], lists), log())


def test_a_list_that_shows_another_state() -> None:
    assert_broken("Atomic", course(stream(0, *EVERYTHING)), log(), listed(7, 6))


def test_a_list_that_a_watch_began_with() -> None:
    seen = course(stream(7, *EVERYTHING[3:]), listing=listed(7, 5, 7))
    assert_broken("Atomic", seen, log(), listed(7, 6, 7))


def test_a_version_that_has_left_the_window_is_too_old() -> None:
    validate_watches(Sightings(WINDOW, [course(stream(5, error=too_old(5, 7)))]), log(apart=60))


def test_a_watch_that_falls_out_of_the_window() -> None:
    slow = stream(6, told(ADDED, 7), error=too_old(7, 8))
    slow.sent -= 300
    validate_watches(Sightings(WINDOW, [course(slow)]), log(apart=101))


def test_a_version_that_has_left_the_window_is_served_all_the_same() -> None:
    assert_broken("Resumable", course(stream(5, *EVERYTHING[1:])), log(apart=60))
