"""HTTP/2 on one transport, with Hypercorn's classes: its TCPServer drives its H2Protocol on our transport.

The server runs one `Http2Connection` after ALPN chose h2, or when the client sends HTTP/2's preface first. Requests
reach the same handler via `app`. The overrides add what Hypercorn 0.18 lacks: a GOAWAY when closing, refused streams
that clients may retry, senders that wait for slow readers, and no exceptions in its loop for unexpected frames.
docs/decisions/0007-hypercorn.md lists the private names that this relies on, and what it costs.
"""

from __future__ import annotations

import sys
from math import inf
from typing import Any

import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h2 import BUFFER_HIGH_WATER, H2Protocol
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import TrioSingleTask, WorkerContext
from hypercorn.typing import AppWrapper, ASGISendCallable, ConnectionState
from hypercorn.utils import parse_socket_addr
from hyperframe.frame import GoAwayFrame

from gateway.connections.limits import Limits
from gateway.connections.server_state import log
from gateway.connections.transport import Transport
from gateway.requests.request import Peer
from gateway.watch.member import CLOSE_TIMEOUT


class Settings(Config):
    """Hypercorn's configuration, with our limits."""

    include_server_header = False
    errorlog = log
    # Hypercorn would close a connection after a thousand requests, together with those in progress.
    keep_alive_max_requests = sys.maxsize

    def __init__(self, limits: Limits) -> None:
        self.keep_alive_timeout = limits.idle_seconds
        self.h2_max_concurrent_streams = limits.streams
        self.h2_max_header_list_size = limits.head


class TransportStream:
    """Adapts a transport to the stream that Hypercorn expects: trio's exceptions, and bytes read ahead first."""

    def __init__(self, transport: Transport, ahead: bytes) -> None:
        self._transport = transport
        self._ahead = ahead
        self._ended = False

    async def receive_some(self, _max_bytes: int | None = None) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead, b""
            return data
        if self._ended or self._transport.closed:
            raise trio.ClosedResourceError
        try:
            return await self._transport.receive()
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def send_all(self, data: bytes) -> None:
        if self._transport.closed:
            raise trio.ClosedResourceError
        try:
            await self._transport.send(data)
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        """End the reading; the reader then lingers, as closing with unread bytes would reset what was sent."""
        self._ended = True
        self._transport.interrupt()


class Http2Protocol(H2Protocol):
    """Hypercorn's protocol; it handles events first that Hypercorn would raise on."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._all_sent = trio.lowlevel.ParkingLot()
        # Hypercorn's settings announce WebSockets over HTTP/2, which we do not serve.
        self.connection.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.config.h2_max_concurrent_streams,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: self.config.h2_max_header_list_size,
            },
        )

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            # One by one: a stream may end while the previous event is handled.
            if not self._intercepted(event):
                await super()._handle_events([event])
        await self._flush()

    def _intercepted(self, event: h2.events.Event) -> bool:
        if isinstance(event, h2.events.RequestReceived):
            return self._refused(event)
        if isinstance(event, h2.events.StreamReset) and (stream := self.streams.get(event.stream_id or 0)):
            _interrupt(stream)
        if isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
            self._discard_data(event)
            return True
        return False

    def _refused(self, event: h2.events.RequestReceived) -> bool:
        headers = dict(event.headers or ())
        if self.context.terminated.is_set():
            return self._reset(event.stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
        if headers.get(b":method") == b"CONNECT" or not headers.get(b":path", b"").isascii():
            return self._reset(event.stream_id, h2.errors.ErrorCodes.PROTOCOL_ERROR)
        return False

    async def stream_send(self, event: StreamEvent) -> None:
        """Override: wait for slow readers, and send buffered data before a stopping server's last stream ends."""
        if isinstance(event, StreamClosed) and self.context.terminated.is_set():
            await self.wait_until_sent()
        await super().stream_send(event)
        if isinstance(event, Body):
            await self._wait_for_room(event.stream_id)

    async def _wait_for_room(self, stream_id: int) -> None:
        """Wait for the client's window: Hypercorn lets a sender continue after every small send, even if it is full."""
        while (buffer := self.stream_buffers.get(stream_id)) is not None:
            if len(buffer.buffer) < BUFFER_HIGH_WATER:
                return
            await buffer._paused.wait()
            await buffer._paused.clear()

    async def wait_until_sent(self) -> None:
        """Wait until all buffered data has been sent, up to CLOSE_TIMEOUT."""
        with trio.move_on_after(CLOSE_TIMEOUT):
            while self.stream_buffers and not self.closed:
                await self._all_sent.park()

    async def _send_data(self, stream_id: int) -> None:
        await super()._send_data(stream_id)
        if not self.stream_buffers:
            self._all_sent.unpark_all()

    async def handle(self, event: Event) -> None:
        if isinstance(event, Closed):
            for stream in self.streams.values():
                _interrupt(stream)
        await super().handle(event)
        if self.closed:
            self._all_sent.unpark_all()

    async def _close_stream(self, stream_id: int) -> None:
        """Override: reset a stream whose response is incomplete, so that the client can tell."""
        buffer = self.stream_buffers.get(stream_id)
        if stream_id in self.streams and buffer is not None and not buffer._complete:
            await buffer.close()
            # After the connection has closed, no reset can be sent, and the closing task holds the send lock.
            if not self.closed:
                self._reset(stream_id, h2.errors.ErrorCodes.CANCEL)
                await self._flush()
        await super()._close_stream(stream_id)

    def _reset(self, stream_id: int | None, code: h2.errors.ErrorCodes) -> bool:
        try:
            self.connection.reset_stream(stream_id or 0, code)
        except h2.exceptions.ProtocolError:
            pass  # the peer has closed the stream already
        return True

    def _discard_data(self, event: h2.events.DataReceived) -> None:
        """The response is complete and the client still sends: reset the stream, keep the connection's window open."""
        try:
            self.connection.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        except h2.exceptions.ProtocolError:
            pass
        self._reset(event.stream_id, h2.errors.ErrorCodes.NO_ERROR)


def _interrupt(stream: HTTPStream | WSStream) -> None:
    """Mark a stream that ended before its response did."""
    stream.interrupted = True  # type: ignore[union-attr]


def interrupted(send: ASGISendCallable) -> bool:
    """Whether the client ended a stream before its response, given the `send` that Hypercorn passed to the app."""
    return hasattr(send.__self__, "interrupted")  # type: ignore[attr-defined]


class Http2Connection(TCPServer):
    """One connection. The app finds it as `connection` in the ASGI state."""

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        transport: Transport,
        peer: Peer,
        ahead: bytes,
    ) -> None:
        super().__init__(app, config, context, {"connection": self}, TransportStream(transport, ahead))  # type: ignore[arg-type]
        self.transport = transport
        self.peer = peer
        self.running = 0  # requests being handled, including those whose stream the client has reset
        self._goaway_task = TrioSingleTask()
        self._goaway_lock = trio.Lock()  # a second caller must not close before the first has sent it
        self._goaway_sent = False
        self._reading_done = False

    async def run(self) -> None:
        self.transport.idle = False
        self.transport.deadline = inf
        try:
            async with TaskGroup() as tasks:
                self._task_group = tasks
                await self._open(tasks)
                await self._read_data()
                self._reading_done = True
                await self._goaway_task.stop()
                await self.idle_task.stop()
            if not self.transport.closed:
                await self.transport.linger()
        finally:
            self.transport.close()

    async def _open(self, tasks: TaskGroup) -> None:
        sock = self.transport.socket
        self.protocol = Http2Protocol(  # type: ignore[assignment]
            self.app,
            self.config,
            self.context,
            tasks,
            ConnectionState(self.state),
            self.peer.secure,
            (self.peer.address, 0),
            parse_socket_addr(sock.family, sock.getsockname()),
            self.protocol_send,
        )
        await self.protocol.initiate()
        await self.idle_task.restart(tasks, self._idle_timeout)
        await self._goaway_task.restart(tasks, self._await_end)

    async def protocol_send(self, event: Event) -> None:
        """Override: a stream that ends after the reading does not restart the idle timeout."""
        if not (self._reading_done and isinstance(event, Updated)):
            await super().protocol_send(event)

    async def _await_end(self) -> None:
        await self.context.terminated.wait()
        await self._go_away()

    async def _initiate_server_close(self) -> None:
        await self._go_away()
        await self.protocol.wait_until_sent()  # type: ignore[attr-defined]
        await super()._initiate_server_close()

    async def _go_away(self) -> None:
        """Send GOAWAY with the last stream that gets a response; bypass h2, which closes the connection on GOAWAY."""
        async with self._goaway_lock:
            if not self._goaway_sent:
                self._goaway_sent = True
                last: int = self.protocol.connection.highest_inbound_stream_id  # type: ignore[attr-defined]
                await self.protocol_send(RawData(GoAwayFrame(last_stream_id=last).serialize()))
