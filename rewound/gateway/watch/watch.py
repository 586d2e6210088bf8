"""One watch from start to end: the existing objects if requested, the events since, then the sweep.

`WatchOpener` creates it. Over HTTP/1.1 the task of the connection runs it; over HTTP/2 one task starts it and another
ends it, because a watch that only waits for events needs none. It ends when its timeout passes, the client
disconnects, the server stops, or its cursor leaves the watch history (410 as an ERROR event); never in the middle of
an event.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

import trio

from rewound.actors.errors import ConversionFailed, Expired, VersionTooLarge
from rewound.actors.golang.json import dumps
from rewound.gateway.message import EndReason, Finished
from rewound.gateway.pipeline.errors import Failure, failure_of, plain_failure
from rewound.gateway.watch.changes import TooOld
from rewound.gateway.watch.framing import Framing
from rewound.gateway.watch.group import Group
from rewound.gateway.watch.hub import Hub
from rewound.gateway.watch.initial_events import InitialEvents, WatchEnded
from rewound.gateway.watch.interest import Interest
from rewound.gateway.watch.member import CLOSE_TIMEOUT, Grant, Limit, Member, Pipe, send_all

# Bytes that a client may send during its watch: pipelined requests wait in memory.
MAX_EARLY_BYTES = 64 << 10

GROUP_FAILED = "internal error, which ended this watch; see the server's log"


class GroupFailed(Exception):
    """The sweep of the watch's group raised an exception."""


class Durations(Protocol):
    def add(self, seconds: float, size: int) -> None:
        """Count a request that took so long."""


class WatchFollower(Protocol):
    """Follows one watch; `testing.faults` uses it to limit how far the watch gets."""

    def started(self) -> None:
        """Called when the watch starts; its limit is read next."""

    def left(self) -> None:
        """Called when the watch ends; `reached` says how far it got."""


class Watch:
    __slots__ = (
        "_began",
        "_early",
        "_ends_at",
        "_failure",
        "_follower",
        "_framing",
        "_grant",
        "_group",
        "_hub",
        "_interest",
        "_limit",
        "_member",
        "_series",
        "_start",
        "_version",
    )

    _member: Member
    _framing: Framing
    _began: float

    def __init__(
        self,
        hub: Hub,
        interest: Interest,
        start: int | InitialEvents,
        ends_at: float,
        grant: Grant | None = None,
    ) -> None:
        self._hub = hub
        self._grant = grant
        self._interest = interest
        self._start: int | InitialEvents = start  # a version; or None, to send all existing objects first
        self._ends_at = ends_at
        self._early = b""
        self._failure: VersionTooLarge | None = None
        self._group: Group | None = None  # set once it has joined the sweep
        self._series: Durations | None = None
        self._limit: int | None = None
        self._follower: WatchFollower | None = None
        self._version = start if isinstance(start, int) else None  # set until it has joined the sweep

    def measure(self, series: Durations, began: float) -> None:
        """Let a series count the watch when it ends; `began` is in the clock of durations."""
        self._series, self._began = series, began

    @property
    def interest(self) -> Interest:
        return self._interest

    @property
    def reached(self) -> int | None:
        """The version up to which everything has been sent; None while the existing objects are being sent."""
        return self._version if self._group is None else self._group.reached(self._member)

    def limit_to(self, version: int | None) -> None:
        """Send no event after a version, and the existing objects as of that version; None removes the limit."""
        self._limit = version
        if self._group is not None:
            self._group.set_limit(self._member, version)

    def follow(self, follower: WatchFollower) -> None:
        self._follower = follower

    @property
    def follower(self) -> WatchFollower | None:
        return self._follower

    @property
    def binary(self) -> bool:
        return self._interest.binary

    async def run(self, connection: Pipe, framing: Framing) -> Finished:
        finished = await self.start(connection, framing)
        if finished is not None:
            return finished
        try:
            await self._listen_until(self._member, lambda: False)
        except BaseException:
            self.leave()
            raise
        return await self.end()

    async def start(self, connection: Pipe, framing: Framing) -> Finished | None:
        """Send what precedes the sweep, and join it; return None if the group sends from then on."""
        member = self._member = Member(
            connection,
            self._ends_at,
            self._hub,
            first_pending=self._interest.encode_first is not None,
            grant=self._grant,
        )
        self._framing = framing
        if self._follower is not None:
            self._follower.started()
        self._hub.enter(member, self._interest)
        try:
            if self._failure is not None:
                raise self._failure
            await self._hub.wait_to_start()
            await self._begin(member, framing)
            if self._limit is not None:
                member.limit = Limit(self._limit)
            self._group = self._hub.join(self._interest, framing, member)
            self._hub.started()
            return None
        except (WatchEnded, Expired, TooOld, ConversionFailed, VersionTooLarge) as ending:
            return await self._conclude(ending)
        finally:
            if self._group is None:
                self.leave()

    def fail(self, error: VersionTooLarge) -> None:
        """Send only the ERROR event for this error. Call it before `start`."""
        self._failure = error

    def begin_at(self, version: int) -> None:
        """Start with the existing objects of an older version, and the events since. Call it before `start`."""
        if isinstance(self._start, InitialEvents):
            self._start.begin_at(version)

    async def expire(self, connection: Pipe, framing: Framing) -> Finished:
        """Send only the ERROR event for a version that is too old; replaces `start`."""
        start = self._start
        member = self._member = Member(connection, self._ends_at, self._hub)
        member.cursor = start if isinstance(start, int) else 0
        self._framing = framing
        self._hub.enter(member, self._interest)
        try:
            return await self._conclude(TooOld())
        finally:
            self.leave()

    def end_early(self) -> None:
        """End a started watch now, whatever timeout the client requested."""
        self._member.end()

    def should_end(self) -> bool:
        return self._member.should_end()

    async def end(self) -> Finished:
        try:
            await self._finish(self._member, self._framing)
        except (TooOld, GroupFailed, ConversionFailed) as ending:
            return await self._conclude(ending)
        else:
            return self._finished(None)
        finally:
            self.leave()

    def leave(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.left()
        self._hub.leave(self._interest, self._framing, self._member)
        series, self._series = self._series, None
        if series is not None:
            series.add(perf_counter() - self._began, 0)

    async def _conclude(self, ending: Exception) -> Finished:
        """End the stream with the ERROR event that says why it cannot continue."""
        member, framing = self._member, self._framing
        if isinstance(ending, WatchEnded) and member.end_reason is not EndReason.TOO_OLD:
            return self._finished(None)
        if isinstance(ending, GroupFailed | ConversionFailed | VersionTooLarge):
            failure = failure_of(ending) or plain_failure(500, GROUP_FAILED)
            await send_all(member, framing(self._error(failure)))
            return self._finished(EndReason.FAILED)
        await send_all(member, framing(self._too_old(member)))
        return self._finished(EndReason.TOO_OLD)

    def _finished(self, reason: EndReason | None) -> Finished:
        if reason is None:
            reason = EndReason.STOPPING if self._hub.closing else EndReason.TIME_UP
        return Finished(reason, self._early)

    async def _listen_until(self, member: Member, enough: Callable[[], bool]) -> None:
        """Read from the client, to notice when it disconnects, until the watch should end or `enough()`."""
        while not (member.should_end() or enough()):
            try:
                data = await member.pipe.receive()
            except trio.ClosedResourceError:
                continue
            if not data or len(self._early) > MAX_EARLY_BYTES:
                raise ConnectionResetError("the client disconnected")
            self._early += data

    # Start.

    async def _begin(self, member: Member, framing: Framing) -> None:
        if self._hub.expired:
            raise TooOld
        start, self._start = self._start, 0  # frees the memory of the start
        if isinstance(start, InitialEvents):
            if self._limit is not None and self._limit < self._hub.newest():
                start.begin_at(max(self._limit, self._hub.floor()))
            start = await self._send_initial_events(member, framing, start)
        member.cursor = self._version = start
        if start > self._hub.newest():
            await self._await_version(member, start)
        if start < self._hub.floor(self._interest.type_name):
            raise TooOld

    async def _send_initial_events(self, member: Member, framing: Framing, initial: InitialEvents) -> int:
        """Send the existing objects, and notice meanwhile if the client disconnects."""
        interest, disconnected = self._interest, False
        initial.sent = interest.sent
        end_of = interest.initial_events_end
        if end_of is not None:
            initial.end = lambda version: framing(end_of(version))

        def frame(body: bytes, first: bool) -> bytes:
            encode = interest.encode_first if first and interest.encode_first else interest.encode
            return framing(encode("ADDED", body))

        conversion = interest.conversion
        convert = conversion if conversion is not None and conversion.needed else None
        version = await initial.send_first(member, frame, convert)
        if version is not None:
            return version
        sent: int | Exception = WatchEnded()

        async def listen() -> None:
            nonlocal disconnected
            try:
                await self._listen_until(member, lambda: False)
            except OSError:
                disconnected = True
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            try:
                sent = await initial.send(member, frame, convert)
            except Exception as error:
                sent = error
            nursery.cancel_scope.cancel()
        if disconnected:
            raise ConnectionResetError("the client disconnected")
        if isinstance(sent, Exception):
            raise sent
        return sent

    async def _await_version(self, member: Member, version: int) -> None:
        """Send nothing until a future version has been committed. Raises WatchEnded if the timeout passes first."""
        self._hub.wake_at(member, version)
        await self._listen_until(member, lambda: self._hub.newest() >= version)
        if self._hub.newest() < version:
            raise WatchEnded

    # End.

    async def _finish(self, member: Member, framing: Framing) -> None:
        """Complete the current event, then send a last bookmark if the client asked for bookmarks."""
        group = self._group
        assert group is not None
        if member in group.lagging:
            await self._finish_catching_up(member, group)
        reached = group.reached(member)
        removed = member.ended
        group.leave(member)
        if member.rest is not None:
            raise ConnectionResetError("the client did not read to the end of an event")
        if member.end_reason is EndReason.TOO_OLD:
            raise TooOld
        if member.end_reason is EndReason.FAILED:
            raise member.error or GroupFailed
        if removed:
            raise ConnectionResetError("the client disconnected")
        mark = self._interest.bookmark
        await send_all(member, framing(mark(reached)) if mark is not None else b"")

    @staticmethod
    async def _finish_catching_up(member: Member, group: Group) -> None:
        member.catch_up_done = trio.Event()
        group.wake_waiting()
        with trio.move_on_after(CLOSE_TIMEOUT):
            await member.catch_up_done.wait()
        if not member.catch_up_done.is_set():
            raise ConnectionResetError("the client did not read to the end of an event")

    def _too_old(self, member: Member) -> bytes:
        failure = failure_of(Expired(f"too old resource version: {member.cursor} ({self._hub.floor()})"))
        assert failure is not None
        return self._error(failure)

    def _error(self, failure: Failure) -> bytes:
        return self._interest.wrap("ERROR", dumps(failure.document()))
