"""What watchers and listers received. They record it; validators only read it.

A watch session is what one client received over several streams: it began with the state, after a list, or at a
version, and whenever a stream ended the client resumed from the last version that it had received.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.robustness.interest import Interest
from tests.robustness.objects import Document, Key

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"


class WatchEvent(NamedTuple):
    """An event as the client received it."""

    type: str
    version: int
    key: Key  # without a name, for a bookmark
    body: Document

    def __str__(self) -> str:
        return f"{self.type} {self.key} at {self.version}"


@dataclass(slots=True)
class Stream:
    transport: str
    start: int | None  # the resourceVersion of its request; None: it began with the state
    least: int = 0  # the state that it began with must not be older
    sent: float = 0.0  # seconds since 1970
    ended: float = 0.0
    status: int = 0
    events: list[WatchEvent] = field(default_factory=list)
    error: Document | None = None  # the Status in the ERROR event that ended it
    ending: str = "not ended"

    @property
    def accepted(self) -> bool:
        return self.status in (101, 200)


@dataclass(slots=True)
class Listing:
    interest: Interest
    version: int
    items: dict[Key, Document]


@dataclass(slots=True)
class WatchSession:
    watcher: str
    interest: Interest
    began: str
    listing: Listing | None = None  # the list that it began with, if it listed first
    streams: list[Stream] = field(default_factory=list)

    @property
    def events(self) -> Iterator[WatchEvent]:
        return (event for stream in self.streams for event in stream.events)

    def __str__(self) -> str:
        return f"{self.watcher}, a watch of {self.interest} begun {self.began}"


@dataclass(slots=True)
class Observations:
    """Everything that watchers and listers received in one trial."""

    window: float  # seconds of watch history
    sessions: list[WatchSession] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)

    @property
    def events(self) -> int:
        return sum(len(stream.events) for session in self.sessions for stream in session.streams)
