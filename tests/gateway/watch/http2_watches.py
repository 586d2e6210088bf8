"""A client of watches over HTTP/2: many streams on one connection, each read or stalled by a test.

Its library, h2, raises if the server exceeds a window.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import trio

from tests.gateway.api import ADMIN, Api
from tests.gateway.goaway import GoAwayFilter
from tests.gateway.watch.watch_stream import FramingError, Watch, with_query

T = TypeVar("T", bound="StreamWatch")

DEFAULT_WINDOW = 65_535
WIDE = 1 << 30


class StreamWatch(Watch):
    """One stream. `reading` False: its window stays closed, like that of a client that does not read."""

    def __init__(self, number: int, *, reading: bool) -> None:
        super().__init__()
        self.number = number
        self.reading = reading
        self._buffer = b""
        self.received = 0  # bytes
        self.unread = 0  # bytes to add to the window when it reads again

    def feed(self, data: bytes) -> None:
        self.received += len(data)
        if self.status != 200:
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self.add(line)

    def close(self, broken: Exception | None = None) -> None:
        self.finish(broken=FramingError(f"cut: {self._buffer[-200:]!r}") if self._buffer else broken)


class StreamBody(StreamWatch):
    """A response that is not a watch."""

    body = b""

    def feed(self, data: bytes) -> None:
        self.received += len(data)
        self.body += data


class Connection:
    """`window` is the initial window of each stream, `shared` that of the connection.

    With `shared` None, a stalled stream cannot exhaust the connection's window.
    """

    def __init__(
        self, stream: trio.abc.Stream, *, window: int = DEFAULT_WINDOW, shared: int | None = None
    ) -> None:
        self._stream = stream
        config = h2.config.H2Configuration(header_encoding=None)
        self.h2 = h2.connection.H2Connection(config=config)
        codes = h2.settings.SettingCodes
        values = {codes.INITIAL_WINDOW_SIZE: window, codes.ENABLE_PUSH: 0}
        self.h2.local_settings = h2.settings.Settings(client=True, initial_values=values)
        self._shared = shared
        self._watches: dict[int, StreamWatch] = {}
        self._goaway = GoAwayFilter()
        self._sending = trio.Lock()

    async def open(self) -> None:
        self.h2.initiate_connection()
        if self._shared is None:
            self.h2.increment_flow_control_window(WIDE - DEFAULT_WINDOW)
        elif self._shared > DEFAULT_WINDOW:
            self.h2.increment_flow_control_window(self._shared - DEFAULT_WINDOW)
        await self.flush()

    async def flush(self) -> None:
        async with self._sending:
            if data := self.h2.data_to_send():
                await self._stream.send_all(data)

    async def watch(
        self, path: str, *, reading: bool = True, headers: dict[str, str] | None = None, **query: Any
    ) -> StreamWatch:
        target = with_query(path, watch=1, **query)
        watch: StreamWatch = await self.request(target, reading=reading, headers=headers)
        with trio.fail_after(60):
            while not watch.status:
                await trio.lowlevel.checkpoint()
        return watch

    async def request(
        self,
        target: str,
        *,
        reading: bool = True,
        token: str | None = ADMIN,
        headers: dict[str, str] | None = None,
        kind: type[T] = StreamWatch,  # type: ignore[assignment]
    ) -> T:
        number = self.h2.get_next_available_stream_id()
        watch = self._watches[number] = kind(number, reading=reading)
        sent = {**({"authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        pseudo = [
            (b":method", b"GET"),
            (b":scheme", b"http"),
            (b":authority", b"t"),
            (b":path", target.encode()),
        ]
        fields = [(name.lower().encode(), value.encode()) for name, value in sent.items()]
        self.h2.send_headers(number, [*pseudo, *fields], end_stream=True)
        await self.flush()
        return watch

    async def resume(self, watch: StreamWatch) -> None:
        watch.reading = True
        unread, watch.unread = watch.unread, 0
        await self.widen(unread, watch)

    async def widen(self, increment: int, watch: StreamWatch | None = None) -> None:
        """Open the window of a stream, or of the connection, by this many bytes."""
        with suppress(h2.exceptions.StreamClosedError):
            if increment:
                self.h2.increment_flow_control_window(increment, watch.number if watch is not None else None)
        await self.flush()

    async def change_initial_window(self, size: int) -> None:
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: size})
        await self.flush()

    async def cancel(self, watch: StreamWatch) -> None:
        self.h2.reset_stream(watch.number)
        await self.flush()

    def reset_on_close(self) -> None:
        assert isinstance(self._stream, trio.SocketStream)
        self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def read(self) -> None:
        try:
            while await self.read_once(65536):
                pass
            broken: Exception = FramingError("the connection ended first")
        except (trio.BrokenResourceError, trio.ClosedResourceError, h2.exceptions.ProtocolError) as error:
            broken = error
        for watch in self._watches.values():
            if not watch.over:
                watch.close(broken)

    async def read_once(self, size: int) -> bool:
        """Read up to this many bytes; False at the end."""
        data = await self._stream.receive_some(size)
        for event in self.h2.receive_data(self._goaway.without_goaway(bytes(data))):
            self._handle(event)
        await self.flush()
        return bool(data)

    def _handle(self, event: h2.events.Event) -> None:
        watch = self._watches.get(getattr(event, "stream_id", 0) or 0)
        if watch is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            headers = dict(event.headers or ())
            watch.status = int(headers.pop(b":status"))
            watch.headers = headers
        elif isinstance(event, h2.events.DataReceived):
            watch.feed(event.data or b"")
            length = event.flow_controlled_length or 0
            if not watch.reading:
                watch.unread += length
            elif length:
                with suppress(h2.exceptions.StreamClosedError):  # the stream has ended in the same data
                    self.h2.increment_flow_control_window(length, watch.number)
        elif isinstance(event, h2.events.StreamEnded):
            watch.close()
        elif isinstance(event, h2.events.StreamReset):
            watch.close(FramingError(f"reset: {event.error_code}"))


@asynccontextmanager
async def connection(
    api: Api, *, window: int = DEFAULT_WINDOW, shared: int | None = None, reading: bool = True
) -> AsyncIterator[Connection]:
    """Connect; unless `reading`, the test itself reads, from a small buffer."""
    assert api.addresses.insecure is not None
    sock = trio.socket.socket()
    if not reading:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await sock.connect(api.addresses.insecure)
    stream = trio.SocketStream(sock)
    async with trio.open_nursery() as nursery:
        opened = Connection(stream, window=window, shared=shared)
        await opened.open()
        if reading:
            nursery.start_soon(opened.read)
        try:
            yield opened
        finally:
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):  # a Cancelled here would replace a failed assertion
                await trio.aclose_forcefully(stream)
