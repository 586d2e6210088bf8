"""Resumable: a stream continues right after the version it names, or gets 410 because that is too old."""

from __future__ import annotations

import re

from tests.robustness.guarantees import WatchGuaranteeBroken
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.observations import BOOKMARK, Observations, Stream, WatchSession
from tests.robustness.validate.watch.reliable import difference

# Seconds by which a server may be late to notice that a version is outside the window: on a machine that stalls, an
# event is committed that much later than its time says, and the server cannot know it before.
LATE = 2.0
_TOO_OLD = re.compile(r"too old resource version: (\d+) \((\d+)\)")


def resumable(observations: Observations, follower: JournalFollower) -> None:
    for session in observations.sessions:
        for stream in session.streams:
            if stream.error is not None:
                _was_too_old(session, stream, observations.window, follower)
            if stream.start is not None and stream.accepted:
                _was_not_too_old(session, stream, observations.window, follower)
                _continues(session, stream, stream.start, follower)


def _continues(session: WatchSession, stream: Stream, start: int, follower: JournalFollower) -> None:
    first = next(iter(stream.events), None)
    if first is None:
        return
    received = [] if first.type == BOOKMARK else [first]
    wanted = follower.expected(session.interest).between(start, first.version)
    if received != wanted:
        raise WatchGuaranteeBroken(
            "Resumable", f"{session}, resumed from {start}, {difference(received, wanted)}"
        )


def _was_too_old(session: WatchSession, stream: Stream, window: float, follower: JournalFollower) -> None:
    """The message has the version that was too old and the first one that is not."""
    assert stream.error is not None
    found = _TOO_OLD.fullmatch(stream.error.get("message", ""))
    if stream.error.get("code") != 410 or found is None:
        raise WatchGuaranteeBroken("Resumable", f"{session} ended with {stream.error}")
    cursor, floor = int(found[1]), int(found[2])
    reached = stream.events[-1].version if stream.start is not None and stream.events else stream.start or 0
    begins = follower.offset_at(stream.ended - window)
    if not reached <= cursor < floor <= begins:
        facts = f"it had reached {reached}, and the window began at {begins}"
        raise WatchGuaranteeBroken("Resumable", f"{session} got “{stream.error['message']}”, but {facts}")


def _was_not_too_old(session: WatchSession, stream: Stream, window: float, follower: JournalFollower) -> None:
    begins = follower.offset_at(stream.sent - window - LATE)
    if stream.start is not None and stream.start < begins and (stream.events or stream.error is None):
        if not stream.events and stream.ending != "complete":
            return  # the response began, but no event came
        raise WatchGuaranteeBroken(
            "Resumable", f"{session} was resumed from {stream.start}, but the window began at {begins}"
        )
