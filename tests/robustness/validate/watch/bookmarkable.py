"""Bookmarkable: every event up to the version of a bookmark was sent before it."""

from __future__ import annotations

from tests.robustness.expected_events import ExpectedEvents
from tests.robustness.guarantees import WatchGuaranteeBroken
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.observations import BOOKMARK, Observations, Stream, WatchEvent, WatchSession
from tests.robustness.validate.watch.start import stream_start


def bookmarkable(observations: Observations, follower: JournalFollower) -> None:
    for session in observations.sessions:
        expected = follower.expected(session.interest)
        for stream in session.streams:
            _holds(session, stream, expected)


def _holds(session: WatchSession, stream: Stream, expected: ExpectedEvents) -> None:
    found = stream_start(stream, expected)
    sent: list[WatchEvent] = []
    for event in found.changes if found is not None else ():
        if event.type != BOOKMARK:
            sent.append(event)
        elif found is not None and (wanted := expected.between(found.version, event.version)) != sent:
            missing = [str(one) for one in wanted if one not in sent]
            raise WatchGuaranteeBroken(
                "Bookmarkable", f"{session} got {event} before {missing or 'the events up to its version'}"
            )
