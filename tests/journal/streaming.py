"""Streams a journal into copies of it, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rewound.journal import Journal
from rewound.journal.copy import Copy
from rewound.journal.keys import MAX_OFFSET
from rewound.journal.stream import Commit, Header, Message, Source, Stored, StreamParser, Types

LEADER = "https://leader"


class AnyEnd:
    """Every event may end a commit."""

    def may_end(self, offset: int) -> bool:
        return True


class OnlyEnds:
    def __init__(self, *ends: int) -> None:
        self._ends = ends

    def may_end(self, offset: int) -> bool:
        return offset in self._ends


def parts(source: Source, head: int, ends: AnyEnd | OnlyEnds | None = None) -> Iterator[bytes]:
    """All of a stream up to a head."""
    yield source.begin()
    while source.in_state:
        yield source.state()
    while source.after < head:
        yield source.events(head, ends or AnyEnd())


def stream_of(journal: Journal, after: int | None = None, base: int = 0) -> bytes:
    return b"".join(parts(Source(journal, after, base), journal.head))


def messages(data: bytes) -> list[Message]:
    return list(StreamParser().messages(data))


def offsets(found: list[Message]) -> list[int]:
    return [message.offset for message in found if isinstance(message, Stored)]


class Receiver:
    """Does what a follower does with a stream, up to any byte of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.copy = Copy.open(path, LEADER)

    def receive(self, data: bytes) -> None:
        pending: list[Stored] = []
        for message in StreamParser().messages(data):
            match message:
                case Header():
                    if self.copy is None:
                        self.copy = Copy.create(self.path, message, LEADER)
                    self.copy.begin(message)
                case Types(types):
                    self.opened.add_types(types)
                case Stored():
                    pending.append(message)
                    if message.offset <= self.opened.base:
                        pending = self._apply(pending)
                case Commit():
                    pending = self._apply(pending)

    def _apply(self, pending: list[Stored]) -> list[Stored]:
        if pending:
            self.opened.write(self.opened.batch(pending))
        return []

    @property
    def opened(self) -> Copy:
        assert self.copy is not None
        return self.copy

    def query(self) -> tuple[int | None, int]:
        """`after` and `base` of the next connection."""
        if self.copy is None or not self.copy.journal.head:
            return None, 0
        return self.copy.journal.head, 0 if self.copy.complete else self.copy.base

    def close(self) -> None:
        self.opened.journal.close()


def stored_events(journal: Journal, after: int = 0, upto: int = MAX_OFFSET) -> list[tuple[bytes, bytes]]:
    """Keys and bytes of the events, as LMDB has them."""
    with journal.read() as view:
        found = [(bytes(key), bytes(value)) for key, value in view.txn.cursor(view.databases.events)]
    return [one for one in found if after < int.from_bytes(one[0], "big") <= upto]
