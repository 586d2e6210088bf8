"""Follows the stream of a leader into the journal of a standby.

One connection at a time; after each that breaks, it goes on from the newest event that is durable here. What cannot be
mended by trying again (another cluster, another history, events that are gone) ends it with CannotFollow, and the
server with it: a standby that serves something else than its leader is worse than none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

import trio

from actors.store.committer import DiskSpeed, run_beside
from gateway.client.errors import ClientError, StatusError
from gateway.client.streaming import StreamingSession
from gateway.pipeline.route import FEED_PATH
from journal.copy import Copy
from journal.errors import CannotFollow, CannotStore
from journal.frames import BadFrame
from journal.log import Journal
from journal.records import Event
from journal.stream import Commit, Ended, Header, Message, Stored, StreamParser, Types

logger = logging.getLogger(__name__)

SILENCE: Final = 15.0  # seconds: three heartbeats
# Seconds between two connections: the second at once, later ones after a pause that doubles.
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
DAMAGED: Final = 3  # connections in a row whose bytes are not what was sent, and that brought nothing new
STATE_BYTES, STATE_EVENTS = 1 << 20, 250  # of the state at the base, written at once

Publish = Callable[[list[Event]], None]


@dataclass(slots=True)
class Standing:
    """How a standby stands to its leader; times are those of the event loop."""

    connected: bool = False
    leader_head: int = 0  # as far as it is known
    leader_floor: int = 0
    caught_up: float = -inf  # when it had everything
    connections: int = 0
    damaged: int = 0  # connections that ended because of a checksum
    has_caught_up: bool = False
    problem: str = "it has not reached the leader yet"


class Follower:
    def __init__(self, session: StreamingSession, folder: Path) -> None:
        """`folder` is that of the journal. CannotOpen."""
        self._session, self._folder = session, folder
        self.leader = session.target.server
        self._copy = Copy.open(folder, self.leader)
        self.standing = Standing()
        self.complete = trio.Event()  # the journal has all of a state, and can be served
        self.publish: Publish = _nobody
        self._pending: list[Stored] = []
        self._pending_bytes = 0
        self._useless = 0  # damaged connections in a row
        self._disk = DiskSpeed()
        self._began = trio.current_time()

    @property
    def has_journal(self) -> bool:
        return self._copy is not None

    @property
    def journal(self) -> Journal:
        assert self._copy is not None, "nothing was received yet"
        return self._copy.journal

    def close(self) -> None:
        if self._copy is not None:
            self._copy.journal.close()

    def lag(self) -> tuple[int, float]:
        """How many events, and for how many seconds, it is behind what it knows of the leader."""
        standing, head = self.standing, 0 if self._copy is None else self._copy.journal.head
        events = max(0, standing.leader_head - head)
        if standing.connected and not events:
            return 0, 0.0
        return events, trio.current_time() - max(standing.caught_up, self._began)

    async def run(self) -> None:
        """Follow until cancelled. CannotFollow; ClientError before there is a journal."""
        if self._copy is not None and self._copy.complete:
            self.complete.set()
        pause = 0.0
        while True:
            before = self.standing.connections
            try:
                await self._connect()
            except StatusError as error:
                if error.code == 410:
                    raise self._gone() from error
                self._note(error)
            except (ClientError, CannotStore) as error:
                self._note(error)
            except BadFrame as error:
                self._damaged(error)
            finally:
                self.standing.connected = False
            if self.standing.connections > before:
                pause = 0.0
            await trio.sleep(pause)
            pause = min(max(FIRST_PAUSE, 2 * pause), LONGEST_PAUSE)

    def _note(self, error: Exception) -> None:
        if self._copy is None:
            raise error  # a first start: the address or the rights are wrong
        if str(error) != self.standing.problem:
            logger.warning("not following %s: %s", self.leader, error)
        self.standing.problem = str(error)

    def _damaged(self, error: BadFrame) -> None:
        self.standing.damaged += 1
        self._useless += 1
        self.standing.problem = f"the stream is damaged {error}"
        logger.error("the stream of %s is damaged %s; nothing of it was stored", self.leader, error)
        if self._useless >= DAMAGED:
            raise CannotFollow(
                f"what arrives from {self.leader} is not what it sends ({error}), {DAMAGED} times in a row: find what "
                "changes bytes on the way, or follow it by https"
            ) from error

    def _gone(self) -> CannotFollow:
        head = 0 if self._copy is None else self._copy.journal.head
        return CannotFollow(
            f"{self.leader} does not have the events after {head} any more: its retention passed them while this "
            f"standby did not follow; move {self._folder} away and start again, then everything is copied anew"
        )

    # One connection.

    async def _connect(self) -> None:
        parser = StreamParser()
        self._pending, self._pending_bytes = [], 0

        async def take(data: bytes) -> None:
            for message in parser.messages(data):
                await self._take(message)

        await self._session.read_parts(FEED_PATH, SILENCE, take, **self._query())

    def _query(self) -> dict[str, str]:
        copy = self._copy
        if copy is None or not copy.journal.head:
            return {}
        after = {"after": str(copy.journal.head)}
        return after if copy.complete else {**after, "base": str(copy.base)}

    async def _take(self, message: Message) -> None:
        match message:
            case Header():
                self._begin(message)
            case Types(types):
                self._copied.journal.adopt_types(types)
            case Stored(offset):
                self._pending.append(message)
                self._pending_bytes += len(message.value)
                if offset <= self._copied.base and self._is_enough():
                    await self._apply()
            case Commit():
                await self._apply()
                self._committed(message)
            case Ended(gone, text):
                if gone:
                    raise self._gone()
                self.standing.problem = text

    def _begin(self, header: Header) -> None:
        if self._copy is None:
            self._copy = Copy.create(self._folder, header, self.leader)
        self._copy.begin(header)
        standing = self.standing
        standing.connected, standing.problem = True, ""
        standing.connections += 1
        standing.leader_head, standing.leader_floor = header.head, header.floor
        logger.info("following %s after offset %d", self.leader, self._copy.journal.head)

    @property
    def _copied(self) -> Copy:
        if not self.standing.connected or self._copy is None:
            raise BadFrame(0, "it has no header")
        return self._copy

    def _is_enough(self) -> bool:
        return len(self._pending) >= STATE_EVENTS or self._pending_bytes >= STATE_BYTES

    async def _apply(self) -> None:
        """Make what has arrived durable, and pass it to the followers of this server."""
        stored, self._pending, self._pending_bytes = self._pending, [], 0
        if not stored:
            return
        copy = self._copied
        events = copy.decode(stored)
        batch = copy.batch(events, stored)
        began = time.perf_counter()
        if self._disk.slow:
            await run_beside(partial(copy.write, batch))
        else:
            copy.write(batch)
        self._disk.record(time.perf_counter() - began)
        self._useless = 0
        self.publish(events)

    def _committed(self, commit: Commit) -> None:
        copy, standing = self._copied, self.standing
        standing.leader_head, standing.leader_floor = commit.head, commit.floor
        if copy.journal.head >= commit.head:
            standing.caught_up, standing.has_caught_up = trio.current_time(), True
        if copy.complete:
            self.complete.set()


def _nobody(_: list[Event]) -> None:
    """Nothing is served yet."""
