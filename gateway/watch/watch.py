"""One watch from its first event to its last: the present state if asked for, what happened since, then the sweep.

Made by dispatch, run by the task of the connection over whatever transport it has. It ends when its time is up, the
client leaves, the server stops, or the watch history passes it (410 as an ERROR event); never in the middle of
an event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import trio

from actors.errors import Expired, RequestError
from actors.feed import Feed
from actors.kinds.definition import Definition
from actors.resource.reads import ListOptions, Reads
from gateway.errors import failure_of
from gateway.watch.framing import Framing, document, error_document
from gateway.watch.group import Group, TooOld
from gateway.watch.hub import Hub, Interest
from gateway.watch.member import FAREWELL, Member, Pipe

# Objects of the present state sent at a time.
PAGE = 250
# What a client may send while it watches: pipelined requests wait here.
EARLY = 64 << 10

TOO_OLD = "too old resource version: {} ({})"


class Connection(Pipe, Protocol):
    deadline: float

    async def receive(self) -> bytes: ...


class _Over(Exception):
    """The time of a watch is up before it was in step with its group."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a watch begins: after a version, or (None) with the state at the newest one."""

    version: int | None
    options: ListOptions
    definition: Definition
    namespace: str | None


class Watch:
    def __init__(
        self,
        hub: Hub,
        feed: Feed,
        reads: Reads,
        floor: Callable[[], int],
        interest: Interest,
        start: Start,
        ends_at: float,
    ) -> None:
        self._hub = hub
        self._feed = feed
        self._reads = reads
        self._floor = floor
        self._interest = interest
        self._start = start
        self._ends_at = ends_at
        self._early = b""

    async def run(self, connection: Connection, framing: Framing) -> bytes:
        """Serve until the end; answers what the client sent meanwhile. OSError: the client is gone."""
        connection.deadline = self._ends_at
        member = Member(connection, self._ends_at, lambda: self._hub.closing)
        self._hub.enter(member)
        try:
            await self._serve(connection, framing, member)
        except (Expired, TooOld) as error:
            await push(connection, framing(self._gone(error)))
        except _Over:
            pass
        finally:
            self._hub.leave(self._interest, framing, member)
        return self._early

    async def _serve(self, connection: Connection, framing: Framing, member: Member) -> None:
        member.cursor = await self._begin(connection, framing, member)
        group = self._hub.join(self._interest, framing)
        await group.catch_up(member)
        while not member.over():
            try:
                self._note_early(await connection.receive())
            except trio.ClosedResourceError:
                continue
        await self._finish(connection, framing, member, group)

    def _note_early(self, data: bytes) -> None:
        if not data or len(self._early) > EARLY:
            raise ConnectionResetError("the watcher left")
        self._early += data

    async def _begin(self, connection: Connection, framing: Framing, member: Member) -> int:
        start = self._start
        if start.version is None:
            return await self._send_state(connection, framing, member)
        if start.version > self._feed.head:
            await self._wait_for(connection, member, start.version)
        if start.version < self._floor():
            raise Expired(TOO_OLD.format(start.version, self._floor()))
        return start.version

    async def _wait_for(self, connection: Connection, member: Member, version: int) -> None:
        """Silence until a version that is ahead has come, or the client or its time has gone."""
        async with trio.open_nursery() as nursery:

            async def reached() -> None:
                await self._feed.reached(version)
                nursery.cancel_scope.cancel()

            nursery.start_soon(reached)
            while not member.over():
                try:
                    self._note_early(await connection.receive())
                except trio.ClosedResourceError:
                    continue
            nursery.cancel_scope.cancel()
        if version > self._feed.head:
            raise _Over

    async def _send_state(self, connection: Connection, framing: Framing, member: Member) -> int:
        """Synthetic ADDED events for all there is, in the order of a list, page by page at one version."""
        start, token = self._start, ""
        while True:
            options = ListOptions(
                limit=PAGE, token=token, labels=start.options.labels, fields=start.options.fields
            )
            listing = await self._reads.listing(start.definition, start.namespace, options)
            frames = [framing(self._interest.present("ADDED", body)) for body in listing.bodies]
            if frames:
                await push(connection, b"".join(frames), member)
            if member.over():
                raise _Over
            if not listing.token:
                return listing.version
            token = listing.token

    async def _finish(self, connection: Connection, framing: Framing, member: Member, group: Group) -> None:
        """Come to the end of an event, then say how far the stream got if that was asked for."""
        if member.expired:
            raise TooOld
        in_step = member in group.sweeping
        swept = group.swept
        if member in group.lagging:
            member.settled = trio.Event()
            with trio.move_on_after(FAREWELL):
                await member.settled.wait()
        group.leave(member)
        if member.rest is not None:
            raise ConnectionResetError("the watcher did not read to the end of an event")
        mark = self._interest.bookmark
        await push(connection, framing(mark(swept)) if mark and in_step else b"", member)

    def _gone(self, error: Expired | TooOld) -> bytes:
        told: RequestError = (
            error if isinstance(error, Expired) else Expired(TOO_OLD.format("the watch's", self._floor()))
        )
        failure = failure_of(told)
        assert failure is not None
        return error_document(failure.document())


async def push(connection: Connection, data: bytes, member: Member | None = None) -> None:
    """All of it, however slow the client is; `member` gives up when its time is long over."""
    left = memoryview(data)
    while left or connection.clogged:
        taken = connection.transmit(left) if left else 0
        left = left[abs(taken) :]
        if left or taken < 0 or connection.clogged:
            if member is not None:
                member.insist()
            await connection.flush()


def presenter(item: Callable[[bytes], bytes]) -> Callable[[str, bytes], bytes]:
    """Event type and stored bytes to a document, with the object framed by `item`."""
    return lambda kind, body: document(kind, item(body))


def bookmarker(prefix: bytes) -> Callable[[int], bytes]:
    """A bookmark holds the type and a version, and nothing else."""

    def bookmark(version: int) -> bytes:
        return document("BOOKMARK", b'%b"metadata":{"resourceVersion":"%d"}}' % (prefix, version))

    return bookmark
