"""Reliable: a stream has every change of the log that matches its selector."""

from __future__ import annotations

from tests.robustness.expected_events import ExpectedEvents
from tests.robustness.guarantees import WatchGuaranteeBroken
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.observations import BOOKMARK, Observations, Stream, WatchEvent, WatchSession
from tests.robustness.validate.watch.start import stream_start


def reliable(observations: Observations, follower: JournalFollower) -> None:
    for session in observations.sessions:
        expected = follower.expected(session.interest)
        for stream in session.streams:
            _is_complete(session, stream, expected)


def _is_complete(session: WatchSession, stream: Stream, expected: ExpectedEvents) -> None:
    found = stream_start(stream, expected)
    changes = [event for event in found.changes if event.type != BOOKMARK] if found is not None else []
    if not changes:
        return
    wanted = expected.between(changes[0].version - 1, changes[-1].version)
    if changes != wanted:
        raise WatchGuaranteeBroken(
            "Reliable", f"{session} over {stream.transport} {difference(changes, wanted)}"
        )


def difference(received: list[WatchEvent], wanted: list[WatchEvent]) -> str:
    """The first event that differs."""
    pairs = zip([*received, None], [*wanted, None], strict=False)
    place, (one, other) = next((place, pair) for place, pair in enumerate(pairs) if pair[0] != pair[1])
    detail = ""
    if one is not None and other is not None and one[:3] == other[:3]:
        detail = f": {one.body} instead of {other.body}"
    return f"received {one} as event {place + 1}, where the log has {other}{detail}"
