"""One watch from its first event to its last: the present state if asked for, what happened since, then the sweep.

Made by `Opening`, run by the task of the connection over whatever transport it has. It ends when its time is up, the
client leaves, the server stops, or the watch history passes it (410 as an ERROR event); never in the middle of
an event.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson
import trio

from actors.errors import Expired
from gateway.requests.errors import Failure, failure_of, plain_failure
from gateway.requests.request import Ending, Finished
from gateway.watch.changes import TooOld
from gateway.watch.framing import Framing
from gateway.watch.group import Group
from gateway.watch.hub import Hub
from gateway.watch.interest import Interest
from gateway.watch.member import FAREWELL, Member, Pipe, push
from gateway.watch.state import Over, State

# What a client may send while it watches: pipelined requests wait here.
EARLY = 64 << 10

BROKEN = "an error of the server's own ended this watch; the server's log tells more"


class Broken(Exception):
    """The group of a watch failed."""


class Watch:
    def __init__(self, hub: Hub, interest: Interest, start: int | State, ends_at: float) -> None:
        self._hub = hub
        self._interest = interest
        self._start: int | State = start  # after a version, or with the state at the newest one
        self._ends_at = ends_at
        self._early = b""

    @property
    def binary(self) -> bool:
        return self._interest.binary

    async def run(self, connection: Pipe, framing: Framing) -> Finished:
        member = Member(connection, self._ends_at, self._hub, fresh=self._interest.first is not None)
        self._hub.enter(member, self._interest)
        try:
            why = await self._serve(member, framing)
        finally:
            self._hub.leave(self._interest, framing, member)
        return Finished(why, self._early)

    async def _serve(self, member: Member, framing: Framing) -> Ending:
        try:
            await self._begin(member, framing)
            group = self._hub.join(self._interest, framing, member)
            await self._attend(member, lambda: False)
            await self._finish(member, framing, group)
        except Over:
            pass
        except (Expired, TooOld):
            await push(member, framing(self._too_old(member)))
            return Ending.TOO_OLD
        except Broken:
            await push(member, framing(self._error(plain_failure(500, BROKEN))))
            return Ending.FAILED
        return Ending.STOPPING if self._hub.closing else Ending.TIME_UP

    async def _attend(self, member: Member, enough: Callable[[], bool]) -> None:
        """Listen to the client, who has nothing to say but goodbye, until the watch is over."""
        while not (member.over() or enough()):
            try:
                data = await member.pipe.receive()
            except trio.ClosedResourceError:
                continue
            if not data or len(self._early) > EARLY:
                raise ConnectionResetError("the watcher left")
            self._early += data

    # The beginning.

    async def _begin(self, member: Member, framing: Framing) -> None:
        start, self._start = self._start, 0  # what it takes to begin is not kept
        if isinstance(start, State):
            start = await self._send_state(member, framing, start)
        member.cursor = start
        if start > self._hub.newest():
            await self._await_version(member, start)
        if start < self._hub.floor():
            raise TooOld

    async def _send_state(self, member: Member, framing: Framing, state: State) -> int:
        """Send it, and listen to the client meanwhile."""
        interest, gone = self._interest, False
        sent: int | Exception = Over()

        def frame(body: bytes, first: bool) -> bytes:
            present = interest.first if first and interest.first else interest.present
            return framing(present("ADDED", body))

        async def listen() -> None:
            nonlocal gone
            try:
                await self._attend(member, lambda: False)
            except OSError:
                gone = True
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            try:
                sent = await state.send(member, frame)
            except Exception as error:
                sent = error
            nursery.cancel_scope.cancel()
        if gone:
            raise ConnectionResetError("the watcher left")
        if isinstance(sent, Exception):
            raise sent
        return sent

    async def _await_version(self, member: Member, version: int) -> None:
        """Silence until a version that is ahead has come, or the client or its time has gone."""
        self._hub.expect(member, version)
        await self._attend(member, lambda: self._hub.newest() >= version)
        if self._hub.newest() < version:
            raise Over

    # The end.

    async def _finish(self, member: Member, framing: Framing, group: Group) -> None:
        """Come to the end of an event, then say how far the stream got if that was asked for."""
        if member in group.lagging:
            await self._settle(member, group)
        reached = group.reached(member)
        dismissed = member.ended
        group.leave(member)
        if member.rest is not None:
            raise ConnectionResetError("the watcher did not read to the end of an event")
        if member.fate is Ending.TOO_OLD:
            raise TooOld
        if member.fate is Ending.FAILED:
            raise Broken
        if dismissed:
            raise ConnectionResetError("the watcher left")
        mark = self._interest.bookmark
        await push(member, framing(mark(reached)) if mark is not None else b"")

    @staticmethod
    async def _settle(member: Member, group: Group) -> None:
        member.settled = trio.Event()
        group.nudge()
        with trio.move_on_after(FAREWELL):
            await member.settled.wait()
        if not member.settled.is_set():
            raise ConnectionResetError("the watcher did not read to the end of an event")

    def _too_old(self, member: Member) -> bytes:
        failure = failure_of(Expired(f"too old resource version: {member.cursor} ({self._hub.floor()})"))
        assert failure is not None
        return self._error(failure)

    def _error(self, failure: Failure) -> bytes:
        return self._interest.tell("ERROR", orjson.dumps(failure.document()))
