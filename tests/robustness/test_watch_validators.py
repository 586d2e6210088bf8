"""Each validator of watches finds what breaks its guarantee, and accepts what keeps it."""

from __future__ import annotations

import pytest

from tests.robustness.expected_events import Entry
from tests.robustness.guarantees import WatchGuaranteeBroken, watch_guarantees
from tests.robustness.handwritten_history import content, key, shown
from tests.robustness.interest import Interest
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.objects import Document, bare
from tests.robustness.observations import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    Listing,
    Observations,
    Stream,
    WatchEvent,
    WatchSession,
)
from tests.robustness.validate.watch import WATCH_VALIDATORS, validate_watches

ALL, RED = Interest("configmaps"), Interest("configmaps", labels="color=red")
WINDOW = 100.0
SECOND = 1_000_000
NOW = 1000.0  # long after all events, unless a test says otherwise

# The log: r0 is created red at 5, turns blue at 6 and red again at 8; r1 is created at 7 and removed at 9.
BODIES = {
    5: bare(shown(content(1), 5)),
    6: bare(shown(content(2, color="blue"), 6)),
    7: bare(shown(content(3), 7, name="r1", uid="u2")),
    8: bare(shown(content(4), 8)),
    9: bare(shown(content(3), 9, name="r1", uid="u2")),
}
RED_AT_6 = bare(shown(content(1), 6))


def log(bodies: dict[int, Document] = BODIES, *, apart: float = 0.0) -> JournalFollower:
    """`apart`: seconds between two events, the last of which is now."""
    follower = JournalFollower()
    for offset, body in bodies.items():
        entry = Entry(offset, key(body["metadata"]["name"]), offset == 9, body)
        follower.add(int((NOW - (9 - offset) * apart) * SECOND), offset, entry)
    return follower


def event(kind: str, version: int, body: Document | None = None) -> WatchEvent:
    if kind == BOOKMARK:
        return WatchEvent(kind, version, key("")._replace(namespace=""), {})
    body = body or BODIES[version]
    return WatchEvent(kind, version, key(body["metadata"]["name"]), body)


EVERYTHING = [event(ADDED, 5), event(MODIFIED, 6), event(ADDED, 7), event(MODIFIED, 8), event(DELETED, 9)]
EVERYTHING_RED = [
    event(ADDED, 5),
    event(DELETED, 6, RED_AT_6),
    event(ADDED, 7),
    event(ADDED, 8),
    event(DELETED, 9),
]


def stream(start: int | None, *events: WatchEvent, error: Document | None = None, least: int = 0) -> Stream:
    return Stream("by hand", start, least, NOW, NOW, 200, list(events), error, "complete")


def session(*streams: Stream, interest: Interest = ALL, listing: Listing | None = None) -> WatchSession:
    return WatchSession("a watcher", interest, "by hand", listing, list(streams))


def too_old(cursor: int, floor: int) -> Document:
    return {"code": 410, "message": f"too old resource version: {cursor} ({floor})"}


def listed(version: int, *shows: int, interest: Interest = ALL) -> Listing:
    items = {key(BODIES[one]["metadata"]["name"]): BODIES[one] for one in shows}
    return Listing(interest, version, items)


KEPT = {
    "everything": session(stream(0, *EVERYTHING)),
    "through a selector": session(stream(0, *EVERYTHING_RED), interest=RED),
    "resumed": session(stream(0, *EVERYTHING[:2]), stream(6, *EVERYTHING[2:])),
    "resumed from a bookmark": session(
        stream(6, event(BOOKMARK, 6), event(ADDED, 7), event(BOOKMARK, 7)), stream(7, event(MODIFIED, 8))
    ),
    "the state and what follows": session(stream(None, event(ADDED, 6), event(ADDED, 7), *EVERYTHING[3:])),
    "a part of the state": session(stream(None, event(ADDED, 6), least=7)),
    "an empty state": session(stream(None, event(ADDED, 5))),
}

BROKEN: dict[str, tuple[str, WatchSession]] = {
    "goes back": ("Ordered", session(stream(0, *EVERYTHING[:3], event(MODIFIED, 6)))),
    "goes back when resumed": ("Ordered", session(stream(0, *EVERYTHING[:3]), stream(5, event(MODIFIED, 6)))),
    "bookmark goes back": ("Ordered", session(stream(0, *EVERYTHING[:3], event(BOOKMARK, 6)))),
    "state is sent twice": (
        "Unique",
        session(stream(None, event(ADDED, 6), event(ADDED, 7), event(ADDED, 7))),
    ),
    "event is missing": ("Reliable", session(stream(0, event(ADDED, 5), event(ADDED, 7)))),
    "wrong type": ("Reliable", session(stream(0, event(ADDED, 5), event(ADDED, 6)))),
    "wrong content": ("Reliable", session(stream(0, event(ADDED, 5), event(MODIFIED, 6, RED_AT_6)))),
    "object leaves the selector without DELETED": (
        "Reliable",
        session(stream(0, event(ADDED, 5), event(ADDED, 7)), interest=RED),
    ),
    "DELETED has the new content of an object that left the selector": (
        "Reliable",
        session(stream(0, event(ADDED, 5), event(DELETED, 6)), interest=RED),
    ),
    "object enters the selector with MODIFIED": (
        "Reliable",
        session(stream(6, event(ADDED, 7), event(MODIFIED, 8)), interest=RED),
    ),
    "event of an object that does not match": (
        "Reliable",
        session(stream(5, event(MODIFIED, 6)), interest=RED),
    ),
    "gap when resumed": ("Resumable", session(stream(0, event(ADDED, 5)), stream(5, event(ADDED, 7)))),
    "ended with an unknown error": ("Resumable", session(stream(0, error={"code": 500, "message": "oh"}))),
    "410 within the window": ("Resumable", session(stream(5, error=too_old(5, 7)))),
    "410 that contradicts itself": ("Resumable", session(stream(8, error=too_old(8, 7)))),
    "bookmark too early": ("Bookmarkable", session(stream(0, event(ADDED, 5), event(BOOKMARK, 7)))),
    "bookmark before the first": ("Bookmarkable", session(stream(8, event(BOOKMARK, 9)))),
    "state that never existed": ("Atomic", session(stream(None, event(ADDED, 5), event(ADDED, 7), least=7))),
    "state out of order": ("Atomic", session(stream(None, event(ADDED, 7), event(ADDED, 6)))),
    "state that is too old": ("Atomic", session(stream(None, event(ADDED, 5), least=8))),
    "gap after the state": ("Reliable", session(stream(None, event(ADDED, 5), event(ADDED, 7)))),
}


@pytest.mark.parametrize("name", KEPT)
def test_validators_accept(name: str) -> None:
    validate_watches(Observations(WINDOW, [KEPT[name]]), log())


@pytest.mark.parametrize("name", BROKEN)
def test_validator_finds(name: str) -> None:
    guarantee, seen = BROKEN[name]
    assert_broken(guarantee, seen, log())


def assert_broken(guarantee: str, seen: WatchSession, follower: JournalFollower, *listings: Listing) -> None:
    with pytest.raises(WatchGuaranteeBroken) as broken:
        WATCH_VALIDATORS[guarantee](Observations(WINDOW, [seen], list(listings)), follower)
    assert broken.value.name == guarantee
    assert watch_guarantees()[guarantee] in str(broken.value)


def test_state_may_look_like_a_change() -> None:
    """The first object of the state is also the first event of the log."""
    bodies = {
        5: BODIES[5],
        6: bare(shown(content(2), 6, name="r1", uid="u2")),
        7: bare(shown(content(3), 7, name="r1", uid="u2")),
    }
    seen = session(stream(None, event(ADDED, 5, bodies[5]), event(ADDED, 7, bodies[7])))
    validate_watches(
        Observations(WINDOW, [seen], [Listing(ALL, 7, {key(): bodies[5], key("r1"): bodies[7]})]), log(bodies)
    )


def test_list_that_matches_the_watch_is_accepted() -> None:
    seen = session(stream(0, *EVERYTHING))
    lists = [listed(6, 6), listed(7, 6, 7), listed(8, 7, 8), listed(9, 8)]
    validate_watches(Observations(WINDOW, [seen], lists), log())


def test_list_that_differs_from_the_watch_is_found() -> None:
    assert_broken("Atomic", session(stream(0, *EVERYTHING)), log(), listed(7, 6))


def test_first_list_of_a_watch_that_differs_is_found() -> None:
    seen = session(stream(7, *EVERYTHING[3:]), listing=listed(7, 5, 7))
    assert_broken("Atomic", seen, log(), listed(7, 6, 7))


def test_410_for_a_version_outside_the_window_is_accepted() -> None:
    validate_watches(Observations(WINDOW, [session(stream(5, error=too_old(5, 7)))]), log(apart=60))


def test_410_for_a_watch_that_falls_behind_the_window_is_accepted() -> None:
    slow = stream(6, event(ADDED, 7), error=too_old(7, 8))
    slow.sent -= 300
    validate_watches(Observations(WINDOW, [session(slow)]), log(apart=101))


def test_version_outside_the_window_that_is_served_is_found() -> None:
    assert_broken("Resumable", session(stream(5, *EVERYTHING[1:])), log(apart=60))
