"""A watch as a WebSocket: the pipe of its group, and the control frames that travel between its events.

`http1` makes one after the handshake and gives it the connection. Events are text frames that all watchers of a
group share. The group's sweep and the member's own tasks write frames and parts of frames; a control frame goes
out only where none is under way (`_midway`), and nothing follows a control frame that has gone out in part, or a
close frame.

Idle peers are pinged, and dropped when they do not answer. One that has unread bytes in front of the ping is slow,
not dead: it stays, and TCP watches over it.
"""

from __future__ import annotations

import fcntl
import logging
import termios
from math import inf

import trio

from gateway.connections.link import Link
from gateway.connections.metering import Meter, frame_head
from gateway.connections.websocket import frames as wire
from gateway.requests.exchange import Exchange
from gateway.requests.request import EndReason, Stream
from gateway.watch.broadcast import one_by_one
from gateway.watch.framing import as_binary_frame, as_text_frame
from gateway.watch.member import CLOSE_TIMEOUT

logger = logging.getLogger(__name__)

# After so long a silence of the client it is pinged; then it has so long to answer.
PING_AFTER = 30.0
ANSWER_WITHIN = 30.0

_CODES = {
    EndReason.TIME_UP: wire.NORMAL,
    EndReason.STOPPING: wire.GOING_AWAY,
    EndReason.TOO_OLD: wire.POLICY,
    EndReason.FAILED: wire.INTERNAL_ERROR,
}


class WebSocket:
    __slots__ = (
        "_ahead",
        "_control",
        "_ends_at",
        "_exchange",
        "_leaving",
        "_link",
        "_meter",
        "_midway",
        "_next",
        "_pinged",
        "_reader",
        "_test_at",
    )

    def __init__(self, link: Link, ahead: bytes, exchange: Exchange | None = None) -> None:
        self._link = link
        self._exchange = exchange
        self._meter = None if exchange is None else Meter(frame_head)
        self._ahead = ahead  # what came right behind the handshake
        self._reader = wire.Reader()
        self._midway = False  # part of an event has been sent
        self._control = b""  # of a control frame: the part that has not left
        self._next = b""  # the control frame after it; a newer one takes its place
        self._leaving = False  # the last control frame is a close: nothing follows it
        self._ends_at = inf
        self._pinged = False
        self._test_at = trio.current_time() + PING_AFTER

    @property
    def payload(self) -> int:
        """Bytes of messages that the link took, where the request is observed."""
        return 0 if self._meter is None else self._meter.payload

    async def run(self, stream: Stream) -> None:
        """Serve a stream to its end, with the closing handshake. OSError: the peer is gone."""
        try:
            finished = await stream.run(self, as_binary_frame if stream.binary else as_text_frame)
        except (OSError, trio.ClosedResourceError):
            if not self._leaving or self._control or self._next:
                raise
            await self._link.linger()
        except Exception as error:
            logger.exception("a watch failed")
            self._panic(error)
            await self._close(wire.INTERNAL_ERROR)
        else:
            if finished.reason is EndReason.FAILED:
                self._panic(None)
            await self._close(_CODES[finished.reason])

    def _panic(self, error: Exception | None) -> None:
        if self._exchange is not None:
            self._exchange.panic(error)

    # What a watch asks of a connection.

    @property
    def deadline(self) -> float:
        return self._ends_at

    @deadline.setter
    def deadline(self, moment: float) -> None:
        self._ends_at = moment
        self._link.deadline = min(moment, self._test_at)

    @property
    def has_unsent(self) -> bool:
        return bool(self._control) or self._link.has_unsent

    def transmit(self, data: bytes | memoryview) -> int:
        if (self._control or self._next or self._leaving) and not self._midway and not self._say():
            return 0
        sent = self._link.transmit(data)
        if self._meter is not None:
            self._meter.add(data[: abs(sent)])
        if sent == len(data) or -sent == len(data):
            self._midway = False
        elif sent:
            self._midway = True
        return sent

    broadcast = staticmethod(one_by_one)

    async def flush(self) -> None:
        await self._link.flush()
        if (self._control or self._next) and not self._midway:
            self._say()

    def interrupt(self) -> None:
        self._link.interrupt()

    async def receive(self) -> bytes:
        """Nothing that a watch could use ever comes; only the end does."""
        while True:
            self._link.deadline = self._next_deadline()
            try:
                data, self._ahead = self._ahead or await self._link.receive(), b""
            except trio.ClosedResourceError:
                self._interrupted()
                raise
            if not data:
                return b""
            self._pinged = False
            self._test_at = trio.current_time() + PING_AFTER
            self._hear(data)
            if self._leaving and not self._midway:
                return b""

    def _next_deadline(self) -> float:
        waiting = (self._control or self._next or self._link.has_unsent) and not self._midway
        # The socket is so full that not even a pong fits: try again with the watchdog's next tick.
        return trio.current_time() if waiting else min(self._ends_at, self._test_at)

    # What the client says.

    def _hear(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                if self._leaving:
                    return
                if frame.opcode == wire.PING:
                    self._queue(wire.control_frame(wire.PONG, frame.payload))
                elif frame.opcode == wire.CLOSE:
                    self._leave(wire.close_frame(wire.close_code(frame.payload)))
        except wire.Violation as violation:
            self._leave(wire.close_frame(violation.code, str(violation)))

    def _queue(self, frame: bytes) -> None:
        self._next = frame
        if not self._midway:
            self._say()

    def _leave(self, frame: bytes) -> None:
        """Close, after the event under way if there is one; its reader has not long for that."""
        self._queue(frame)
        self._leaving = True
        self._ends_at = min(self._ends_at, trio.current_time() + CLOSE_TIMEOUT)

    def _say(self) -> bool:
        """Send control frames that wait. True when all are out and events may follow."""
        while self._control or self._next:
            if not self._control:
                self._control, self._next = self._next, b""
            self._control = self._control[abs(self._link.transmit(self._control)) :]
            if self._control:
                return False
        if self._leaving:
            raise ConnectionResetError("the watcher left")
        return True

    # Keeping alive.

    def _interrupted(self) -> None:
        now = trio.current_time()
        self._link.flush_nowait()
        if (self._control or self._next) and not self._midway:
            self._say()
        if self._leaving and now >= self._ends_at:
            raise ConnectionResetError("the watcher asked to close and does not read")
        if now < self._test_at:
            return
        if self._pinged and not self._slow():
            raise ConnectionResetError("the watcher did not answer a ping")
        self._test_at = now + ANSWER_WITHIN
        if not self._slow():
            self._pinged = True
            self._queue(wire.control_frame(wire.PING))

    def _slow(self) -> bool:
        """Whether bytes for this peer still wait on our side, for its window or in parts."""
        if self._midway or self.has_unsent or self._link.closed:
            return True
        try:
            unsent = fcntl.ioctl(self._link.fd, termios.TIOCOUTQ, bytes(4))
        except OSError:
            return False  # not every system tells
        return unsent != bytes(4)

    # The end.

    async def _close(self, code: int) -> None:
        """The close frame, then a while for the peer's: whoever still sends is not cut off by a reset."""
        if self._midway or self._leaving:
            raise ConnectionResetError("the watcher left")
        link = self._link
        link.deadline = trio.current_time() + link.limits.linger_seconds
        while self.has_unsent or self._next:
            await self.flush()
            if trio.current_time() >= link.deadline:
                raise ConnectionResetError("the watcher does not read")
        await link.send(wire.close_frame(code))
        self._leaving = True
        link.deadline = trio.current_time() + link.limits.linger_seconds
        try:
            await self._closed_by_peer()
        except trio.ClosedResourceError:
            pass

    async def _closed_by_peer(self) -> None:
        while data := await self._link.receive():
            try:
                frames = self._reader.feed(data)
            except wire.Violation:
                return
            if any(frame.opcode == wire.CLOSE for frame in frames):
                return
