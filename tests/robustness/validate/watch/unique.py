"""Unique: a client that resumes receives each change of each object once."""

from __future__ import annotations

from tests.robustness.guarantees import WatchGuaranteeBroken
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.objects import Key
from tests.robustness.observations import BOOKMARK, Observations


def unique(observations: Observations, follower: JournalFollower) -> None:
    for session in observations.sessions:
        received: set[tuple[Key, int]] = set()
        for event in session.events:
            if event.type == BOOKMARK:
                continue
            if (event.key, event.version) in received:
                raise WatchGuaranteeBroken("Unique", f"{session} received {event} twice")
            received.add((event.key, event.version))
