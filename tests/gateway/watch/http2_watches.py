"""A client of watches over HTTP/2: many streams on one connection, each read or stalled by a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import trio

from tests.gateway.api import ADMIN, Api
from tests.gateway.goaway import GoAwayFilter
from tests.gateway.watch.watching import FramingError, Watch, with_query


class StreamWatch(Watch):
    """One stream. `reading` False: its window stays closed, as that of a client that does not read."""

    def __init__(self, number: int, *, reading: bool) -> None:
        super().__init__()
        self.number = number
        self.reading = reading
        self._buffer = b""
        self.unread = 0  # bytes to add to the window when it reads again

    def feed(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self.add(line)

    def close(self, broken: Exception | None = None) -> None:
        self.finish(broken=FramingError(f"cut: {self._buffer!r}") if self._buffer else broken)


class Connection:
    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        config = h2.config.H2Configuration(header_encoding=None)
        self.h2 = h2.connection.H2Connection(config=config)
        self._watches: dict[int, StreamWatch] = {}
        self._goaway = GoAwayFilter()
        self._sending = trio.Lock()

    async def open(self) -> None:
        self.h2.initiate_connection()
        # A large window for the connection: one stalled stream must not exhaust what all share.
        self.h2.increment_flow_control_window((1 << 30) - 65535)
        await self.flush()

    async def flush(self) -> None:
        async with self._sending:
            if data := self.h2.data_to_send():
                await self._stream.send_all(data)

    async def watch(self, path: str, *, reading: bool = True, **query: Any) -> StreamWatch:
        number = self.h2.get_next_available_stream_id()
        watch = self._watches[number] = StreamWatch(number, reading=reading)
        self.h2.send_headers(
            number,
            [
                (b":method", b"GET"),
                (b":scheme", b"http"),
                (b":authority", b"t"),
                (b":path", with_query(path, watch=1, **query).encode()),
                (b"authorization", f"Bearer {ADMIN}".encode()),
            ],
            end_stream=True,
        )
        await self.flush()
        while not watch.status:
            await trio.lowlevel.checkpoint()
        return watch

    async def resume(self, watch: StreamWatch) -> None:
        watch.reading = True
        self.h2.increment_flow_control_window(watch.unread, watch.number)
        watch.unread = 0
        await self.flush()

    async def cancel(self, watch: StreamWatch) -> None:
        self.h2.reset_stream(watch.number)
        await self.flush()

    async def read(self) -> None:
        try:
            while data := await self._stream.receive_some(65536):
                for event in self.h2.receive_data(self._goaway.without_goaway(bytes(data))):
                    self._handle(event)
                await self.flush()
        except (trio.BrokenResourceError, trio.ClosedResourceError, h2.exceptions.ProtocolError):
            pass
        for watch in self._watches.values():
            if not watch.over:
                watch.close(FramingError("the connection ended first"))

    def _handle(self, event: h2.events.Event) -> None:
        watch = self._watches.get(getattr(event, "stream_id", 0) or 0)
        if watch is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            watch.status = int(dict(event.headers or ())[b":status"])
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
async def connection(api: Api) -> AsyncIterator[Connection]:
    assert api.addresses.insecure is not None
    stream = await trio.open_tcp_stream(*api.addresses.insecure)
    async with trio.open_nursery() as nursery:
        opened = Connection(stream)
        await opened.open()
        nursery.start_soon(opened.read)
        try:
            yield opened
        finally:
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):  # a Cancelled here would replace a failed assertion
                await trio.aclose_forcefully(stream)
