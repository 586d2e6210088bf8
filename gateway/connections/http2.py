"""HTTP/2 on one link, by Hypercorn's classes: its TCPServer drives its H2Protocol on our link.

The server runs one `Http2` after ALPN chose h2, or when HTTP/2's preface comes first. Requests reach the
same handler through `app`. What is overridden is what Hypercorn 0.18 leaves open: a GOAWAY when closing,
streams refused so that clients may retry them, senders that wait for slow readers, and peers whose frames would
raise inside its loop.
Rejected: speaking h2 ourselves, as the heavy traffic (gets, watches of controllers) is HTTP/1.1 where that
is cheaper.
"""

from __future__ import annotations

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

from gateway.connections.link import Link
from gateway.requests.request import Peer
from gateway.watch.member import CLOSE_TIMEOUT


class LinkStream:
    """A link as the stream that Hypercorn expects: trio's exceptions, and bytes read ahead given first."""

    def __init__(self, link: Link, ahead: bytes) -> None:
        self._link = link
        self._ahead = ahead
        self._ended = False

    async def receive_some(self, _max_bytes: int | None = None) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead, b""
            return data
        if self._ended or self._link.closed:
            raise trio.ClosedResourceError
        try:
            return await self._link.receive()
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def send_all(self, data: bytes) -> None:
        if self._link.closed:
            raise trio.ClosedResourceError
        try:
            await self._link.send(data)
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        """End the reading; who reads then lingers, as a close with words unread would take back what was sent."""
        self._ended = True
        self._link.interrupt()


class Streams(H2Protocol):
    """Hypercorn's protocol, with events it would stumble over taken out first."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._departures = trio.lowlevel.ParkingLot()
        # Hypercorn offers WebSockets over HTTP/2; we do not serve them.
        self.connection.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.config.h2_max_concurrent_streams,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: self.config.h2_max_header_list_size,
            },
        )

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            # One by one: a stream may end while the event before is handled.
            if not self._screened(event):
                await super()._handle_events([event])
        await self._flush()

    def _screened(self, event: h2.events.Event) -> bool:
        if isinstance(event, h2.events.RequestReceived):
            return self._refused(event)
        if isinstance(event, h2.events.StreamReset) and (stream := self.streams.get(event.stream_id or 0)):
            _interrupt(stream)
        if isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
            self._discard(event)
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
        """Besides: wait for slow readers, and let what was sent leave before a stopping server's last stream ends."""
        if isinstance(event, StreamClosed) and self.context.terminated.is_set():
            await self.send_off()
        await super().stream_send(event)
        if isinstance(event, Body):
            await self._wait_for_room(event.stream_id)

    async def _wait_for_room(self, stream_id: int) -> None:
        """Hypercorn lets a sender go on after every small send, also when nothing fits into the client's window."""
        while (buffer := self.stream_buffers.get(stream_id)) is not None:
            if len(buffer.buffer) < BUFFER_HIGH_WATER:
                return
            await buffer._paused.wait()
            await buffer._paused.clear()

    async def send_off(self) -> None:
        """Until everything has left, or a client has had time enough to take it."""
        with trio.move_on_after(CLOSE_TIMEOUT):
            while self.stream_buffers and not self.closed:
                await self._departures.park()

    async def _send_data(self, stream_id: int) -> None:
        await super()._send_data(stream_id)
        if not self.stream_buffers:
            self._departures.unpark_all()

    async def handle(self, event: Event) -> None:
        if isinstance(event, Closed):
            for stream in self.streams.values():
                _interrupt(stream)
        await super().handle(event)
        if self.closed:
            self._departures.unpark_all()

    async def _close_stream(self, stream_id: int) -> None:
        """Besides: an answer whose end was never given is cut off, and its client must be able to tell."""
        buffer = self.stream_buffers.get(stream_id)
        if stream_id in self.streams and buffer is not None and not buffer._complete:
            await buffer.close()
            # Once all is closed there is nobody to tell, and whoever found out holds the lock for sending.
            if not self.closed:
                self._reset(stream_id, h2.errors.ErrorCodes.CANCEL)
                await self._flush()
        await super()._close_stream(stream_id)

    def _reset(self, stream_id: int | None, code: h2.errors.ErrorCodes) -> bool:
        try:
            self.connection.reset_stream(stream_id or 0, code)
        except h2.exceptions.ProtocolError:
            pass  # the peer was faster
        return True

    def _discard(self, event: h2.events.DataReceived) -> None:
        """The answer is out and the client still sends: stop it, and keep the connection's window open."""
        try:
            self.connection.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        except h2.exceptions.ProtocolError:
            pass
        self._reset(event.stream_id, h2.errors.ErrorCodes.NO_ERROR)


def _interrupt(stream: HTTPStream | WSStream) -> None:
    """Mark a stream that ended before its response did."""
    stream.interrupted = True  # type: ignore[union-attr]


def interrupted(send: ASGISendCallable) -> bool:
    """Whether the client ended a stream before its response, given the `send` that Hypercorn made for it."""
    return hasattr(send.__self__, "interrupted")  # type: ignore[attr-defined]


class Http2(TCPServer):
    """One connection. The app finds it as `connection` in the ASGI state."""

    def __init__(
        self, app: AppWrapper, config: Config, context: WorkerContext, link: Link, peer: Peer, ahead: bytes
    ) -> None:
        super().__init__(app, config, context, {"connection": self}, LinkStream(link, ahead))  # type: ignore[arg-type]
        self.link = link
        self.peer = peer
        self.running = 0  # requests being handled, also those whose stream the client has reset
        self._farewell = TrioSingleTask()
        self._farewell_lock = trio.Lock()  # who comes second must not close before the first has sent
        self._said_farewell = False
        self._over = False

    async def run(self) -> None:
        self.link.idle = False
        self.link.deadline = inf
        try:
            async with TaskGroup() as tasks:
                self._task_group = tasks
                await self._open(tasks)
                await self._read_data()
                self._over = True
                await self._farewell.stop()
                await self.idle_task.stop()
            if not self.link.closed:
                await self.link.linger()
        finally:
            self.link.close()

    async def _open(self, tasks: TaskGroup) -> None:
        sock = self.link.socket
        self.protocol = Streams(  # type: ignore[assignment]
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
        await self._farewell.restart(tasks, self._await_end)

    async def protocol_send(self, event: Event) -> None:
        """Besides: a stream that ends after the reading starts no wait for further ones."""
        if not (self._over and isinstance(event, Updated)):
            await super().protocol_send(event)

    async def _await_end(self) -> None:
        await self.context.terminated.wait()
        await self._go_away()

    async def _initiate_server_close(self) -> None:
        await self._go_away()
        await self.protocol.send_off()  # type: ignore[attr-defined]
        await super()._initiate_server_close()

    async def _go_away(self) -> None:
        """Tell which streams will still be answered; past h2, which takes a GOAWAY for the end of all."""
        async with self._farewell_lock:
            if not self._said_farewell:
                self._said_farewell = True
                last: int = self.protocol.connection.highest_inbound_stream_id  # type: ignore[attr-defined]
                await self.protocol_send(RawData(GoAwayFrame(last_stream_id=last).serialize()))
