"""Atomic: lists and watches show the same states."""

from __future__ import annotations

from collections import defaultdict

from tests.robustness.expected_events import ExpectedEvents, fold
from tests.robustness.guarantees import WatchGuaranteeBroken
from tests.robustness.interest import Interest
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.objects import Document, Key
from tests.robustness.observations import Listing, Observations, WatchEvent, WatchSession
from tests.robustness.validate.watch.start import StreamStart, stream_start


def atomic(observations: Observations, follower: JournalFollower) -> None:
    listings: defaultdict[Interest, list[Listing]] = defaultdict(list)
    for listing in observations.listings:
        listings[listing.interest].append(listing)
    for session in observations.sessions:
        if session.listing is not None:
            listings[session.interest].append(session.listing)
    for session in observations.sessions:
        if session.streams:
            _agrees(session, listings[session.interest], follower.expected(session.interest))


def _agrees(session: WatchSession, listings: list[Listing], expected: ExpectedEvents) -> None:
    """Each list at a version that the session passed shows the objects that the session had then."""
    began = stream_start(session.streams[0], expected)
    if began is None:
        shown = [str(event) for event in session.streams[0].events[:30]]
        raise WatchGuaranteeBroken("Atomic", f"{session} began with a state that never existed: {shown}")
    reached = max((event.version for event in _changes(session, began)), default=0)
    for listing in listings:
        if began.version <= listing.version <= reached:
            held = _held(session, began, expected, listing.version)
            if held != listing.items:
                raise WatchGuaranteeBroken(
                    "Atomic", f"{session} at {listing.version} {_difference(held, listing.items)}"
                )


def _changes(session: WatchSession, began: StreamStart) -> list[WatchEvent]:
    return [*began.changes, *(event for stream in session.streams[1:] for event in stream.events)]


def _held(
    session: WatchSession, began: StreamStart, expected: ExpectedEvents, version: int
) -> dict[Key, Document]:
    first = session.streams[0]
    if first.start is not None:
        state = session.listing.items if session.listing is not None else expected.state(first.start)
    else:
        state = fold({}, first.events[: len(first.events) - len(began.changes)])
    return fold(state, (event for event in _changes(session, began) if event.version <= version))


def _difference(held: dict[Key, Document], items: dict[Key, Document]) -> str:
    wrong = [key for key in sorted({*held, *items}) if held.get(key) != items.get(key)]
    parts = [f"{key}: watched {_brief(held.get(key))}, listed {_brief(items.get(key))}" for key in wrong]
    return f"differs from a list: {parts}"


def _brief(body: Document | None) -> str:
    return "nothing" if body is None else f"version {body['metadata']['resourceVersion']}"
