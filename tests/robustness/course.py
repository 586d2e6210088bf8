"""What watchers and listers saw. Watchers record; validators only read.

A course is what one client put together: it began somewhere (with the state, after a list, or at a version), and
whenever its stream ended it resumed from the last version that it had received.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.robustness.interest import Interest
from tests.robustness.objects import Document, Key

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"


class Seen(NamedTuple):
    """An event as it came."""

    type: str
    version: int
    key: Key  # without a name for a bookmark
    body: Document

    def __str__(self) -> str:
        return f"{self.type} {self.key} at {self.version}"


@dataclass(slots=True)
class Stream:
    transport: str
    start: int | None  # the version it named; None: it began with the state
    least: int = 0  # a version that the state it began with must have reached
    sent: float = 0.0  # seconds since 1970
    ended: float = 0.0
    status: int = 0
    events: list[Seen] = field(default_factory=list)
    error: Document | None = None  # the status in the ERROR event that ended it
    ending: str = "under way"

    @property
    def answered(self) -> bool:
        return self.status in (101, 200)


@dataclass(slots=True)
class Listing:
    interest: Interest
    version: int
    items: dict[Key, Document]


@dataclass(slots=True)
class Course:
    watcher: str
    interest: Interest
    began: str
    listing: Listing | None = None  # what it began with, where it listed first
    streams: list[Stream] = field(default_factory=list)

    @property
    def events(self) -> Iterator[Seen]:
        return (event for stream in self.streams for event in stream.events)

    def __str__(self) -> str:
        return f"{self.watcher}, a watch of {self.interest} begun {self.began}"


@dataclass(slots=True)
class Sightings:
    """Everything that was seen in one run."""

    window: float  # seconds of watch history
    courses: list[Course] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)

    @property
    def events(self) -> int:
        return sum(len(stream.events) for course in self.courses for stream in course.streams)
