"""Reads a list in turns: each step is one read transaction and some milliseconds of work, all read one version.

`Reads.open` makes a `ListReader`; between two steps its caller runs a checkpoint, or waits until a client has taken
what was read. Steps after the first read the version of the first, as the pages of a client do. A step may return
nothing although the list goes on: a selector may not match for long, and an old version is rebuilt in steps too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import trio

from actors.clock import Clock
from actors.errors import Expired
from actors.selectors.matcher import Match
from actors.store.continue_token import CURRENT, Token
from actors.turns import ProcessorTurn
from journal.errors import Compacted, FutureVersion
from journal.log import Journal
from journal.records import Row
from journal.replay.past_view import PastView
from journal.state import Page, Stop
from journal.view import View

# Rows of one step, even if it takes little time: they are held until the client has taken them.
BATCH_ROWS = 2500

VERSION_TOO_OLD = "The resourceVersion for the provided list is too old."


class VersionedState(Protocol):
    """The current state or an older one; both have the same interface."""

    def get(self, type_id: int, namespace: str, name: str) -> Row | None: ...

    def count(self, type_id: int, namespace: str | None = None) -> int: ...

    def page(
        self,
        type_id: int,
        namespace: str | None = None,
        *,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
        match: Match | None = None,
        stop: Stop | None = None,
        size: int | None = None,
    ) -> Page: ...


@dataclass(frozen=True, slots=True)
class Listing:
    bodies: list[bytes]
    version: int
    token: str = ""
    remaining: int = 0  # 0: complete, or unknown


@dataclass(frozen=True, slots=True)
class Start:
    """Where a list begins."""

    version: int | None  # None: the current one
    token: Token | None
    remaining: int | None  # items after this point; None: not yet counted, -1: unknown

    @property
    def after(self) -> tuple[str, str] | None:
        return (self.token.namespace, self.token.after) if self.token else None


class ListReader:
    __slots__ = (
        "_after",
        "_clock",
        "_count",
        "_counted",
        "_counted_to",
        "_journal",
        "_limit",
        "_match",
        "_more",
        "_namespace",
        "_start",
        "_type_id",
        "_version",
        "complete",
        "total",
    )

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        type_id: int,
        namespace: str | None,
        limit: int,
        match: Match | None,
        start: Start,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._type_id = type_id
        self._namespace = namespace
        self._limit = limit
        self._match = match
        self._start = start
        self._version = start.version
        self._after = start.after
        self.total = start.remaining  # as in `Start`, from the first step on
        self._counted, self._counted_to = 0, start.after
        self._count = 0
        self._more = True
        self.complete = False  # everything has been read, or as much as the limit allows

    @property
    def version(self) -> int:
        assert self._version is not None, "no step has been taken"
        return self._version

    @property
    def limited(self) -> bool:
        return self._limit > 0

    @property
    def expected(self) -> int | None:
        """How many objects the list will have, after the first step; None if that is unknown."""
        if self.total is None or self.total < 0:
            return None
        return min(self.total, self._limit) if self._limit > 0 else self.total

    def rewind(self) -> None:
        """Read again from the start, at the same version."""
        self._after = self._start.after
        self._count = 0
        self._more, self.complete = True, False

    def step(self, size: int | None = None) -> list[bytes]:
        """Read the next objects, at most about `size` bytes of them. Expired."""
        turn = ProcessorTurn()
        left = self._limit - self._count
        wanted = min(left, BATCH_ROWS) if self._limit > 0 else BATCH_ROWS
        with self._journal.read() as view:
            state = self._state(view, turn.over)
            if state is None:
                return []
            if self._version is None:
                self._version = view.head
            if self.total is None and not self._count_total(state, turn.over):
                return []
            page = state.page(
                self._type_id,
                self._namespace,
                after=self._after,
                limit=wanted,
                match=self._match,
                stop=turn.over,
                size=size,
            )
        self._count += len(page.bodies)
        self._more = page.more
        self._after = page.last or self._after
        self.complete = not page.more or (0 < self._limit <= self._count and not page.stopped)
        return page.bodies

    def _count_total(self, state: VersionedState, stop: Stop) -> bool:
        """Count the items of the list; False if that has to go on in the next step.

        The state knows how many there are in all. How many come after a position must be counted: a list that goes on
        at the current version after its token expired does so once, and its further tokens have the number.
        """
        if self._counted_to is None:
            self.total = state.count(self._type_id, self._namespace)
            return True
        page = state.page(
            self._type_id, self._namespace, after=self._counted_to, match=self._count_one, stop=stop
        )
        if page.more:
            self._counted_to = page.last
            return False
        self.total = self._counted
        return True

    def _count_one(self, _: bytes) -> bool:
        self._counted += 1
        return False

    def _state(self, view: View, stop: Stop) -> VersionedState | None:
        """The state to read; None while it is being rebuilt."""
        version = view.head if self._version is None else self._version
        if version == view.head and view.is_newest:
            return view
        self._version = version  # a replay may go on while its state is rebuilt
        past = state_at(view, version)
        return past if isinstance(past, View) or past.prepare(self._type_id, stop) else None

    async def read(self, size: int | None = None) -> list[bytes]:
        """Take steps until there is at least one object, or none is left."""
        while not (bodies := self.step(size)) and not self.complete:
            await trio.lowlevel.checkpoint()
        return bodies

    async def read_all(self) -> Listing:
        bodies = self.step()
        while not self.complete:
            await trio.lowlevel.checkpoint()
            bodies += self.step()
        return self.listing(bodies)

    def listing(self, bodies: list[bytes]) -> Listing:
        """What was read, with the metadata of the whole list, which must be complete."""
        if not self._more or self._after is None:
            return Listing(bodies, self.version)
        total, start = self.total, self._start
        remaining = -1 if total is None or total < 0 else total - self._count
        issued = start.token.issued if start.token and start.token.version != CURRENT else self._clock.now()
        token = Token(self.version, issued, *self._after, remaining)
        return Listing(bodies, self.version, str(token), max(remaining, 0))


def state_at(view: View, version: int) -> View | PastView:
    try:
        return view.at(version)
    except (Compacted, FutureVersion):
        raise Expired(VERSION_TOO_OLD) from None  # in the future: a replay went back since the list began
