"""Follows the stream of a leader, into the journal of a standby or into a backup (`sinks`).

One connection at a time; after each that breaks, it goes on from the newest event that is durable here. What cannot be
mended by trying again (another cluster, another history, events that are gone) ends it with CannotFollow, and the
server with it: a standby that serves something else than its leader is worse than none.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

import trio

from rewound.gateway.client.errors import ClientError, StatusError
from rewound.gateway.client.streaming import StreamingSession
from rewound.gateway.pipeline.route import FEED_PATH
from rewound.journal.errors import CannotFollow, CannotStore
from rewound.journal.frames import BadFrame
from rewound.journal.stream import Commit, Ended, Header, Message, Stored, StreamParser, Types

logger = logging.getLogger(__name__)

SILENCE: Final = 15.0  # seconds: three heartbeats
# Seconds between two connections: the second at once, later ones after a pause that doubles.
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
DAMAGED: Final = 3  # connections in a row whose bytes are not what was sent, and that brought nothing new
# Whole commits that are made durable together while it is behind: many while it catches up for the first time, few
# later, so that the requests of a standby do not wait.
BATCH_BYTES = 1 << 20
FIRST_EVENTS, LATER_EVENTS = 1000, 200


class Sink(Protocol):
    """Where a stream goes."""

    @property
    def name(self) -> str:
        """What it is, for errors: the folder or the file."""

    @property
    def is_new(self) -> bool:
        """Whether no stream has begun yet."""

    @property
    def head(self) -> int: ...

    @property
    def base(self) -> int: ...

    def after(self) -> tuple[int | None, int]:
        """After which offset to go on, None for the first time; and the base whose state is not complete, or 0."""

    def begin(self, header: Header) -> None:
        """CannotFollow."""

    def add_types(self, types: dict[str, int]) -> None:
        """CannotFollow."""

    async def store(self, stored: list[Stored]) -> None:
        """Make events durable. CannotFollow, CannotStore."""


@dataclass(slots=True)
class Standing:
    """How a standby stands to its leader; times are those of the event loop."""

    connected: bool = False
    leader_head: int = 0  # as far as it is known
    leader_floor: int = 0
    caught_up: float = -inf  # when it had everything
    connections: int = 0
    damaged: int = 0  # connections that ended because of a checksum
    problem: str = "it has not reached the leader yet"


class Follower:
    def __init__(self, session: StreamingSession, sink: Sink) -> None:
        self._session, self._sink = session, sink
        self.leader = session.target.server
        self.standing = Standing()
        self.caught_up = trio.Event()  # it had everything once
        self._pending: list[Stored] = []
        self._pending_bytes = 0
        self._commit: Commit | None = None  # of the last of them that are whole
        self._whole = 0  # how many of them are
        self._useless = 0  # damaged connections in a row
        self._began = trio.current_time()

    def lag(self) -> tuple[int, float]:
        """How many events, and for how many seconds, it is behind what it knows of the leader."""
        standing = self.standing
        events = max(0, standing.leader_head - self._sink.head)
        if standing.connected and not events:
            return 0, 0.0
        return events, trio.current_time() - max(standing.caught_up, self._began)

    async def run(self) -> None:
        """Follow until cancelled. CannotFollow; ClientError before the first stream has begun."""
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
        if self._sink.is_new:
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
        return CannotFollow(
            f"{self.leader} does not have the events after {self._sink.head} any more: its retention passed them while "
            f"nothing followed it into {self._sink.name}; move that away and start again: everything is copied anew"
        )

    # One connection.

    async def _connect(self) -> None:
        parser = StreamParser()
        self._pending, self._pending_bytes, self._commit, self._whole = [], 0, None, 0

        async def take(data: bytes) -> None:
            for message in parser.messages(data):
                await self._take(message)

        try:
            await self._session.read_parts(FEED_PATH, SILENCE, take, **self._query())
        except (ClientError, BadFrame):
            await self._store_commits()  # what came before is sound
            raise
        await self._store_commits()

    def _query(self) -> dict[str, str]:
        after, base = self._sink.after()
        query = {} if after is None else {"after": str(after)}
        return {**query, "base": str(base)} if base else query

    async def _take(self, message: Message) -> None:
        if not (self.standing.connected or isinstance(message, Header)):
            raise BadFrame(0, "it has no header")
        match message:
            case Header():
                self._begin(message)
            case Types(types):
                self._sink.add_types(types)
            case Stored(offset):
                self._pending.append(message)
                self._pending_bytes += len(message.value)
                if offset <= self._sink.base and self._is_enough():
                    await self._store(len(self._pending))
            case Commit():
                self._commit, self._whole = message, len(self._pending)
                in_state = message.offset <= self._sink.base
                if message.offset >= message.head or in_state or self._is_enough():
                    await self._store_commits()
            case Ended(gone, text):
                if gone:
                    raise self._gone()
                self.standing.problem = text

    def _begin(self, header: Header) -> None:
        self._sink.begin(header)
        standing = self.standing
        standing.connected, standing.problem = True, ""
        standing.connections += 1
        standing.leader_head, standing.leader_floor = header.head, header.floor
        logger.info("following %s after offset %d", self.leader, self._sink.head)

    def _is_enough(self) -> bool:
        most = LATER_EVENTS if self.caught_up.is_set() else FIRST_EVENTS
        return len(self._pending) >= most or self._pending_bytes >= BATCH_BYTES

    async def _store(self, count: int) -> None:
        stored, self._pending = self._pending[:count], self._pending[count:]
        self._pending_bytes = sum(len(one.value) for one in self._pending)
        self._whole = 0
        if stored:
            await self._sink.store(stored)
            self._useless = 0

    async def _store_commits(self) -> None:
        commit, self._commit = self._commit, None
        if commit is not None:
            await self._store(self._whole)
            self._committed(commit)

    def _committed(self, commit: Commit) -> None:
        standing = self.standing
        standing.leader_head, standing.leader_floor = commit.head, commit.floor
        if self._sink.head >= commit.head:
            standing.caught_up = trio.current_time()
            self.caught_up.set()
