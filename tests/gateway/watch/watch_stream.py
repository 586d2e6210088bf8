"""One watch as a client sees it, over any transport: the events so far, and how it ended."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson
import trio

from tests.actors.object_store import Document


class FramingError(Exception):
    """The server sent something that is not a whole event in its transport's framing."""


class Watch:
    """One stream. `events` grows as it is read; `ended` is set when it ended cleanly."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.events: list[Document] = []
        self.ended = False
        self.broken: Exception | None = None
        self.close_code: int | None = None
        self._progress = trio.lowlevel.ParkingLot()
        self._taken = 0

    def add(self, document: bytes) -> None:
        event: Document = orjson.loads(document)
        if set(event) != {"type", "object"}:
            raise FramingError(f"no event: {document!r}")
        self.events.append(event)
        self._progress.unpark_all()

    def finish(self, *, broken: Exception | None = None) -> None:
        self.ended, self.broken = broken is None, broken
        self._progress.unpark_all()

    @property
    def over(self) -> bool:
        return self.ended or self.broken is not None

    async def take(self, count: int) -> list[Document]:
        """Return the next events."""
        while len(self.events) < self._taken + count:
            assert not self.over, f"over after {self.events[self._taken :]}: {self.broken}"
            await self._progress.park()
        taken = self.events[self._taken : self._taken + count]
        self._taken += count
        return taken

    async def end(self) -> list[Document]:
        """Wait until the stream has ended cleanly; return the events not taken yet."""
        while not self.over:
            await self._progress.park()
        if self.broken is not None:
            raise self.broken
        return await self.take(len(self.events) - self._taken)

    async def wait_over(self) -> None:
        """Wait until the stream has ended, cleanly or not."""
        while not self.over:
            await self._progress.park()

    async def types_and_names(self, count: int) -> list[tuple[str, str]]:
        """Return the types and names of the next events."""
        return [type_and_name(event) for event in await self.take(count)]

    @property
    def untaken(self) -> list[Document]:
        return self.events[self._taken :]


def type_and_name(event: Document) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"].get("name", "")


def with_query(path: str, **query: Any) -> str:
    pairs = "&".join(f"{quote(name)}={quote(str(value), safe='')}" for name, value in query.items())
    return f"{path}?{pairs}" if pairs else path
