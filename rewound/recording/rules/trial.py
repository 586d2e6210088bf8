"""Tries rules on the past: which alerts they would have given, when, and what that cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rewound.recording.rules.engine import Alert, Engine
from rewound.recording.rules.feed import END_OF_TIME, Feed


@dataclass(frozen=True, slots=True)
class Tried:
    alerts: list[Alert]  # in the order of their times
    events: int
    refused: int
    existing: int  # objects that were there before
    start: int  # times of the range
    end: int
    seconds: float  # of processor time


def warming(engine: Engine, feed: Feed, version: int, time: int) -> Iterator[bool]:
    """Let an engine know what it would know at a version, event by event; yields whether it was an existing object.

    It reads the events of the longest time that a rule looks back, and the objects that were there before. What they
    would have alerted is dropped; `engine.firing` has what is true at the version.
    """
    start = max(0, time - engine.span)
    first = min(feed.version_at(start), version)
    for occurrence in feed.existing(first, engine.wants_existing):
        engine.feed(occurrence)
        yield True
    for occurrence in feed.between(first, version, feed.refused(start, time)):
        engine.feed(occurrence)
        yield False
    engine.advance(time)


def try_rules(
    engine: Engine,
    feed: Feed,
    ends: tuple[int, int],
    times: tuple[int, int],
    progress: Callable[[int], object] = lambda done: None,
) -> Tried:
    """Feed the events of a range of versions; `times` are those of both ends."""
    began = time.process_time()
    after, upto = ends
    start, end = times
    existing = sum(warming(engine, feed, after, start))
    alerts = engine.firing()
    before = engine.events
    refused = feed.refused(start, min(end + 1, END_OF_TIME))
    for number, occurrence in enumerate(feed.between(after, upto, refused)):
        found = engine.feed(occurrence)
        if found:
            alerts += found
        if number % 1000 == 0:
            progress(number)
    alerts += engine.advance(end)
    events = engine.events - before - len(refused)
    return Tried(alerts, events, len(refused), existing, start, end, time.process_time() - began)
