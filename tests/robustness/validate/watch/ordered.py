"""Ordered: in a stream, and from one stream to the one that resumes it, versions ascend."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile

from tests.robustness.guarantees import WatchGuaranteeBroken
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.observations import ADDED, BOOKMARK, Observations, Stream, WatchEvent, WatchSession


def ordered(observations: Observations, follower: JournalFollower) -> None:
    for session in observations.sessions:
        reached = 0
        for stream in session.streams:
            reached = _ascends(session, stream, reached)


def _ascends(session: WatchSession, stream: Stream, reached: int) -> int:
    """The last version of a stream."""
    for event in _changes(stream):
        descends = event.version < reached if event.type == BOOKMARK else event.version <= reached
        if descends:
            raise WatchGuaranteeBroken("Ordered", f"in {session} {event} came after version {reached}")
        reached = event.version
    return reached


def _changes(stream: Stream) -> Iterator[WatchEvent]:
    """The events after the initial state of a stream, which comes in the order of a list."""
    if stream.start is not None:
        return iter(stream.events)
    return dropwhile(lambda event: event.type == ADDED, stream.events)
