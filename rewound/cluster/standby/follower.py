"""Follows the stream of a leader, into the journal of a standby or into a backup (`sinks`).

It has one connection at a time. When one breaks, it continues from the newest event that is durable here: at once if
the connection brought something, or else after growing pauses, which spare a leader that keeps failing. An error that a
retry cannot fix (another cluster, another history, events that are gone, damaged or invalid) raises CannotFollow and
ends the server: a standby that differs from its leader is worse than none.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

import trio

from rewound.client.errors import ClientError, StatusError
from rewound.client.target import Target
from rewound.gateway.pipeline.route import FEED_PATH
from rewound.journal.errors import CannotFollow, CannotStore, Damaged, NewerLayout
from rewound.journal.frames import BadFrame
from rewound.journal.stream import BadMessage, Commit, Ended, Header, Message, Stored, StreamParser, Types

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
# Bytes of events in memory whose commit has not ended: more are stored early. Commits of leaders have a few MB.
LONGEST_COMMIT = 64 << 20
# Bytes of Python's objects for an event; its content is there twice, as it came and decoded.
EVENT_OVERHEAD = 600


class Session(Protocol):
    """The part of a `StreamingSession` that a follower uses."""

    @property
    def target(self) -> Target: ...

    async def read_parts(
        self, path: str, seconds: float, take: Callable[[bytes], Awaitable[None]], **query: str
    ) -> None:
        """Read a stream. Raises StatusError or ClientError."""


class Sink(Protocol):
    """Where a stream goes."""

    @property
    def name(self) -> str:
        """The folder or the file, for errors."""

    @property
    def is_new(self) -> bool:
        """Whether no stream has begun yet."""

    @property
    def head(self) -> int: ...

    @property
    def base(self) -> int: ...

    def after(self) -> tuple[int | None, int]:
        """The offset after which to continue, None at first; and the base whose state is incomplete, or 0."""

    def begin(self, header: Header) -> None:
        """CannotFollow."""

    def add_types(self, types: dict[str, int]) -> None:
        """CannotFollow."""

    async def store(self, stored: list[Stored]) -> None:
        """Make events durable. CannotFollow, CannotStore."""


@dataclass(slots=True)
class FollowerStatus:
    """The state of a follower in relation to its leader; times are those of the event loop."""

    connected: bool = False
    leader_head: int = 0  # as far as it is known
    leader_floor: int = 0
    caught_up: float = -inf  # when it last had everything
    connections: int = 0
    damaged: int = 0  # connections that ended because of a checksum
    problem: str = "it has not reached the leader yet"


class Follower:
    def __init__(self, session: Session, sink: Sink) -> None:
        self._session, self._sink = session, sink
        self.leader = session.target.server
        self.status = FollowerStatus()
        self.caught_up = trio.Event()  # set when it first had everything
        self._pending: list[Stored] = []
        self._pending_bytes = 0
        self._commit: Commit | None = None  # the end of the last whole commit among them
        self._whole = 0  # how many of them are
        self._damaged_in_a_row = 0  # damaged connections in a row
        self._stored = 0  # events that were made durable
        self._began = trio.current_time()

    def lag(self) -> tuple[int, float]:
        """By how many events it is behind the leader, as far as known, and for how many seconds."""
        status = self.status
        events = max(0, status.leader_head - self._sink.head)
        if status.connected and not events:
            return 0, 0.0
        return events, trio.current_time() - max(status.caught_up, self._began)

    async def run(self) -> None:
        """Follow until cancelled. Raises CannotFollow, and ClientError before the first stream has begun."""
        pause = 0.0
        while True:
            began, stored = trio.current_time(), self._stored
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
                self.status.connected = False
            # A connection that lasted may have had nothing to send.
            if self._stored > stored or trio.current_time() - began >= LONGEST_PAUSE:
                pause = 0.0
            await trio.sleep(pause)
            pause = min(max(FIRST_PAUSE, 2 * pause), LONGEST_PAUSE)

    def _note(self, error: Exception) -> None:
        if self._sink.is_new:
            raise error  # a first start: the address or the rights are wrong
        if str(error) != self.status.problem:
            logger.warning("not following %s: %s", self.leader, error)
        self.status.problem = str(error)

    def _damaged(self, error: BadFrame) -> None:
        self.status.damaged += 1
        self._damaged_in_a_row += 1
        self.status.problem = f"the stream is damaged {error}"
        logger.error("the stream of %s is damaged %s; nothing of it was stored", self.leader, error)
        if self._damaged_in_a_row >= DAMAGED:
            raise CannotFollow(
                f"what arrives from {self.leader} is not what it sends ({error}), {DAMAGED} times in a row: find what "
                "changes bytes on the way, or follow it by https"
            ) from error

    def _leader_is_damaged(self, what: str) -> CannotFollow:
        return CannotFollow(
            f"{self.leader} cannot send what follows offset {self._sink.head}: its journal is damaged ({what}); run "
            "`rewound journal verify` on its data folder, then restore it from a backup or save what is sound with "
            f"`rewound journal recover`; {self._sink.name} has everything up to that version"
        )

    def _gone(self) -> CannotFollow:
        return CannotFollow(
            f"{self.leader} does not have the events after {self._sink.head} any more: its retention passed them while "
            f"nothing followed it into {self._sink.name}; move that away and start again: everything is copied again"
        )

    # One connection.

    async def _connect(self) -> None:
        parser = StreamParser()
        self._pending, self._pending_bytes, self._commit, self._whole = [], 0, None, 0

        async def take(data: bytes) -> None:
            for message in parser.messages(data):
                await self._take(message)

        try:
            await self._read(take)
        except Exception:
            await self._store_commits()  # everything before the damage is sound
            raise
        await self._store_commits()

    async def _read(self, take: Callable[[bytes], Awaitable[None]]) -> None:
        """Read a stream to its end. Raises ClientError or BadFrame, after which to retry; CannotFollow, CannotStore."""
        try:
            await self._session.read_parts(FEED_PATH, SILENCE, take, **self._query())
        except ClientError as error:
            if self.status.connected:
                raise self._broken(error) from error
            raise
        except BadMessage as error:
            raise CannotFollow(
                f"{self.leader} sends what cannot be stored ({error.why}): check its data folder with `rewound journal "
                "verify`, and use the same release at both ends"
            ) from error
        except NewerLayout as newer:
            raise CannotFollow(
                f"{self.leader} runs a newer release than this one ({newer}): upgrade this one too; standbys and "
                "backups are upgraded before the server that they follow"
            ) from newer
        except Damaged as damage:
            raise CannotFollow(
                f"{self.leader} has sent an event that is damaged ({damage.what}): run `rewound journal verify` "
                "on its data folder"
            ) from damage
        if not self.status.problem:
            self.status.problem = "the stream ended without a reason"

    def _broken(self, error: ClientError) -> ClientError:
        """The error for a stream that broke off. The server was reached, so its address is right."""
        return ClientError(f"the stream of {self.leader} broke off: {error.__cause__ or error}")

    def _query(self) -> dict[str, str]:
        after, base = self._sink.after()
        query = {} if after is None else {"after": str(after)}
        return {**query, "base": str(base)} if base else query

    async def _take(self, message: Message) -> None:
        match message:
            case Header():
                self._begin(message)
            case Types(types):
                self._sink.add_types(types)
            case Stored(offset=offset):
                if offset > self._sink.base and self._pending and self._pending[-1].offset <= self._sink.base:
                    await self._store(len(self._pending))  # a state whose end no commit says
                self._pending.append(message)
                self._pending_bytes += _memory(message)
                in_state = offset <= self._sink.base and self._is_enough()
                if in_state or self._pending_bytes > LONGEST_COMMIT:
                    await self._store(len(self._pending))
            case Commit():
                self._commit, self._whole = message, len(self._pending)
                in_state = message.offset <= self._sink.base
                if message.offset >= message.head or in_state or self._is_enough():
                    await self._store_commits()
            case Ended(gone, text, damaged):
                if gone:
                    raise self._gone()
                if damaged:
                    await self._store_commits()
                    raise self._leader_is_damaged(damaged)
                self.status.problem = text

    def _begin(self, header: Header) -> None:
        self._check_place(header)
        self._sink.begin(header)
        status = self.status
        status.connected, status.problem = True, ""
        status.connections += 1
        status.leader_head, status.leader_floor = header.head, header.floor
        logger.info("following %s after offset %d", self.leader, self._sink.head)

    def _check_place(self, header: Header) -> None:
        """Check that the stream begins where it was requested to: otherwise events would be missing."""
        after, base = self._sink.after()
        if header.after != (after or 0) or (after is not None and header.base != base):
            raise CannotFollow(
                f"{self.leader} sends the events after {header.after} (the state at {header.base}) in place of those "
                f"after {after or 0} (the state at {base}): use the same release at both ends"
            )

    def _is_enough(self) -> bool:
        most = LATER_EVENTS if self.caught_up.is_set() else FIRST_EVENTS
        return len(self._pending) >= most or self._pending_bytes >= BATCH_BYTES

    async def _store(self, count: int) -> None:
        stored, self._pending = self._pending[:count], self._pending[count:]
        self._pending_bytes = sum(map(_memory, self._pending))
        self._whole = 0
        if stored:
            await self._sink.store(stored)
            self._damaged_in_a_row = 0
            self._stored += len(stored)

    async def _store_commits(self) -> None:
        commit, self._commit = self._commit, None
        if commit is not None:
            await self._store(self._whole)
            self._committed(commit)

    def _committed(self, commit: Commit) -> None:
        status = self.status
        status.leader_head, status.leader_floor = commit.head, commit.floor
        if self._sink.head >= commit.head:
            status.caught_up = trio.current_time()
            self.caught_up.set()


def _memory(stored: Stored) -> int:
    return stored.size + EVENT_OVERHEAD
