"""A watch over a WebSocket: the pipe of its group, and the control frames between its events.

`http1` creates one after the handshake and passes it the transport. Events are text frames that all watchers of a
group share. The group's sweep and the member's own tasks send frames and parts of frames; a control frame is sent
only between events (`_mid_event`), and nothing follows a partially sent control frame or a close frame. wsproto
parses the client's frames and creates the control frames; the frames of events are ours, because wsproto would create
one per connection (docs/decisions/0006-websocket.md).

Idle peers are pinged, and disconnected if they send no pong. A peer that had unread bytes before the ping is slow,
not dead: it stays connected, and TCP keepalive monitors it.
"""

from __future__ import annotations

import fcntl
import logging
import termios
from math import inf

import trio
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode, ParseFailed

from rewound.gateway.connections.metering import Meter, frame_head
from rewound.gateway.connections.transport import Transport
from rewound.gateway.exchange import Exchange
from rewound.gateway.message import EndReason, Stream
from rewound.gateway.watch.broadcast import one_by_one
from rewound.gateway.watch.framing import as_binary_frame, as_text_frame
from rewound.gateway.watch.member import CLOSE_TIMEOUT

logger = logging.getLogger(__name__)

# Seconds without bytes from the client before a ping, and seconds within which it must send a pong.
PING_AFTER = 30.0
PONG_TIMEOUT = 30.0

_CODES = {
    EndReason.TIME_UP: CloseReason.NORMAL_CLOSURE,
    EndReason.STOPPING: CloseReason.GOING_AWAY,
    EndReason.TOO_OLD: CloseReason.POLICY_VIOLATION,
    EndReason.FAILED: CloseReason.INTERNAL_ERROR,
}


class WebSocket:
    __slots__ = (
        "_ahead",
        "_closing",
        "_control",
        "_ends_at",
        "_exchange",
        "_meter",
        "_mid_event",
        "_next",
        "_ping_at",
        "_pinged",
        "_protocol",
        "_transport",
    )

    def __init__(self, transport: Transport, ahead: bytes, exchange: Exchange | None = None) -> None:
        self._transport = transport
        self._exchange = exchange
        self._meter = None if exchange is None else Meter(frame_head)
        self._ahead = ahead  # bytes received together with the handshake
        self._protocol = FrameProtocol(client=False, extensions=[])
        self._mid_event = False  # part of an event has been sent
        self._control = b""  # the unsent part of a control frame
        self._next = b""  # the next control frame; a newer one replaces it
        self._closing = False  # the last control frame is a close: nothing follows it
        self._ends_at = inf
        self._pinged = False
        self._ping_at = trio.current_time() + PING_AFTER

    @property
    def payload(self) -> int:
        """Payload bytes that the transport accepted, if the request is observed."""
        return 0 if self._meter is None else self._meter.payload

    async def run(self, stream: Stream) -> None:
        """Run a stream to its end, with the closing handshake. Raises OSError if the peer disconnects."""
        try:
            finished = await stream.run(self, as_binary_frame if stream.binary else as_text_frame)
        except (OSError, trio.ClosedResourceError):
            if not self._closing or self._control or self._next:
                raise
            await self._transport.linger()
        except Exception as error:
            logger.exception("a watch failed")
            self._panic(error)
            await self._close(CloseReason.INTERNAL_ERROR)
        else:
            if finished.reason is EndReason.FAILED:
                self._panic(None)
            await self._close(_CODES[finished.reason])

    def _panic(self, error: Exception | None) -> None:
        if self._exchange is not None:
            self._exchange.panic(error)

    # The `Pipe` of a watch.

    @property
    def deadline(self) -> float:
        return self._ends_at

    @deadline.setter
    def deadline(self, moment: float) -> None:
        self._ends_at = moment
        self._transport.deadline = min(moment, self._ping_at)

    @property
    def has_unsent(self) -> bool:
        return bool(self._control) or self._transport.has_unsent

    def transmit(self, data: bytes | memoryview) -> int:
        if (
            (self._control or self._next or self._closing)
            and not self._mid_event
            and not self._send_control()
        ):
            return 0
        sent = self._transport.transmit(data)
        if self._meter is not None:
            self._meter.add(data[: abs(sent)])
        if sent == len(data) or -sent == len(data):
            self._mid_event = False
        elif sent:
            self._mid_event = True
        return sent

    broadcast = staticmethod(one_by_one)

    async def flush(self) -> None:
        await self._transport.flush()
        if (self._control or self._next) and not self._mid_event:
            self._send_control()

    def interrupt(self) -> None:
        self._transport.interrupt()

    async def receive(self) -> bytes:
        """Process what the client sends, which a watch does not need; return b"" when it closes.

        Otherwise raises ClosedResourceError, even after frames: an interruption does not reach the task at the moment
        when they arrive, and the watch must check whether it should end.
        """
        self._transport.deadline = self._next_deadline()
        try:
            data, self._ahead = self._ahead or await self._transport.receive(), b""
        except trio.ClosedResourceError:
            self._interrupted()
            raise
        if not data:
            return b""
        now = trio.current_time()
        self._pinged = False
        self._ping_at = now + PING_AFTER
        if self._closing:
            self._check_close_timeout(now)  # and discard: nothing may follow a close frame or a violation
        else:
            self._process(data)
        if self._closing and not self._mid_event:
            return b""
        raise trio.ClosedResourceError

    def _next_deadline(self) -> float:
        waiting = (self._control or self._next or self._transport.has_unsent) and not self._mid_event
        # The socket is so full that not even a pong fits: try again at the watchdog's next tick.
        return trio.current_time() if waiting else min(self._ends_at, self._ping_at)

    # Frames of the client.

    def _process(self, data: bytes) -> None:
        protocol = self._protocol
        protocol.receive_bytes(data)
        try:
            for frame in protocol.received_frames():
                if self._closing:
                    return
                if frame.opcode is Opcode.PING:
                    assert isinstance(frame.payload, bytes)
                    self._queue(bytes(protocol.pong(frame.payload)))
                elif frame.opcode is Opcode.CLOSE:
                    assert isinstance(frame.payload, tuple)
                    self._start_close(bytes(protocol.close(frame.payload[0])))
        except ParseFailed as failure:
            self._start_close(bytes(protocol.close(failure.code, str(failure))))

    def _queue(self, frame: bytes) -> None:
        self._next = frame
        if not self._mid_event:
            self._send_control()

    def _start_close(self, frame: bytes) -> None:
        """Queue a close frame, to be sent after the current event, within CLOSE_TIMEOUT."""
        self._queue(frame)
        self._closing = True
        self._ends_at = min(self._ends_at, trio.current_time() + CLOSE_TIMEOUT)

    def _send_control(self) -> bool:
        """Send the queued control frames. Return True if all are sent and events may follow."""
        while self._control or self._next:
            if not self._control:
                self._control, self._next = self._next, b""
            self._control = self._control[abs(self._transport.transmit(self._control)) :]
            if self._control:
                return False
        if self._closing:
            raise ConnectionResetError("the client disconnected")
        return True

    # Pings.

    def _interrupted(self) -> None:
        now = trio.current_time()
        self._transport.flush_nowait()
        if (self._control or self._next) and not self._mid_event:
            self._send_control()
        self._check_close_timeout(now)
        if now < self._ping_at:
            return
        if self._pinged and not self._slow():
            raise ConnectionResetError("the client sent no pong")
        self._ping_at = now + PONG_TIMEOUT
        if not self._slow():
            self._pinged = True
            self._queue(bytes(self._protocol.ping()))

    def _check_close_timeout(self, now: float) -> None:
        if self._closing and now >= self._ends_at:
            raise ConnectionResetError("the client sent a close frame and does not read")

    def _slow(self) -> bool:
        """Whether bytes for this peer are still unsent or unacknowledged."""
        if self._mid_event or self.has_unsent or self._transport.closed:
            return True
        try:
            unsent = fcntl.ioctl(self._transport.fd, termios.TIOCOUTQ, bytes(4))
        except OSError:
            return False  # not every system supports it
        return unsent != bytes(4)

    # Close.

    async def _close(self, code: CloseReason) -> None:
        """Send the close frame, then wait a while for the peer's, because a reset could destroy what was sent."""
        if self._mid_event or self._closing:
            raise ConnectionResetError("the client disconnected")
        transport = self._transport
        transport.deadline = trio.current_time() + transport.limits.linger_seconds
        while self.has_unsent or self._next:
            await self.flush()
            if trio.current_time() >= transport.deadline:
                raise ConnectionResetError("the client does not read")
        await transport.send(bytes(self._protocol.close(code)))
        self._closing = True
        transport.deadline = trio.current_time() + transport.limits.linger_seconds
        try:
            await self._closed_by_peer()
        except trio.ClosedResourceError:
            pass

    async def _closed_by_peer(self) -> None:
        while data := await self._transport.receive():
            self._protocol.receive_bytes(data)
            try:
                if any(frame.opcode is Opcode.CLOSE for frame in self._protocol.received_frames()):
                    return
            except ParseFailed:
                return
