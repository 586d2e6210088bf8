"""An HTTP/2 client that a test drives frame by frame, also with frames that no well-behaved client sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h2.config
import h2.connection
import h2.events
import trio
from hyperframe.frame import Frame

from tests.gateway.connections.http_server import Host

HEADERS = [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"t")]


class Http2Client:
    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        config = h2.config.H2Configuration(header_encoding=None, validate_outbound_headers=False)
        self.connection = h2.connection.H2Connection(config=config)
        self.events: list[h2.events.Event] = []
        self._ahead = b""
        self._pings = 0

    async def open(self) -> None:
        self.connection.initiate_connection()
        await self.flush()

    async def flush(self) -> None:
        await self.stream.send_all(self.connection.data_to_send())

    async def request(
        self,
        path: bytes = b"/",
        *,
        method: bytes = b"GET",
        end: bool = True,
        extra: tuple[tuple[bytes, bytes], ...] = (),
    ) -> int:
        number = self.connection.get_next_available_stream_id()
        headers = [(b":method", method), *HEADERS[1:], (b":path", path), *extra]
        self.connection.send_headers(number, headers, end_stream=end)
        await self.flush()
        return number

    async def receive(self) -> bool:
        """Process what the server sends next; False when it has closed."""
        try:
            data = await self.stream.receive_some(65536)
            if data:
                self.events += self.connection.receive_data(bytes(data))
                await self.flush()
        except trio.BrokenResourceError:
            return False
        return bool(data)

    async def arrived(self) -> None:
        """Wait until the server has processed everything sent so far."""
        self._pings += 1
        self.connection.ping(b"%08d" % self._pings)
        await self.flush()
        while not any(
            isinstance(event, h2.events.PingAckReceived) and event.ping_data == b"%08d" % self._pings
            for event in self.events
        ):
            assert await self.receive(), f"closed; there were {self.events}"

    async def until(self, kind: type[h2.events.Event], stream: int | None = None) -> h2.events.Event:
        """The first event of this kind (on this stream), received already or later."""
        while True:
            for event in self.events:
                if isinstance(event, kind) and stream in (None, getattr(event, "stream_id", None)):
                    return event
            assert await self.receive(), f"closed before {kind.__name__}; there were {self.events}"

    async def status(self, stream: int) -> bytes:
        event = await self.until(h2.events.ResponseReceived, stream)
        assert isinstance(event, h2.events.ResponseReceived)
        return dict(event.headers or ())[b":status"]

    async def raw(self, *kinds: type[Frame]) -> list[Frame]:
        """Parse frames without h2, which closes on GOAWAY, up to one of these kinds or the end of the connection."""
        seen: list[Frame] = []
        while not isinstance(seen[-1] if seen else None, kinds):
            head = await self._exactly(9)
            if not head:
                break
            frame, length = Frame.parse_frame_header(memoryview(head))
            frame.parse_body(memoryview(await self._exactly(length)))
            seen.append(frame)
        return seen

    async def _exactly(self, length: int) -> bytes:
        while len(self._ahead) < length:
            data = await self.stream.receive_some(65536)
            if not data:
                return b""
            self._ahead += data
        taken, self._ahead = self._ahead[:length], self._ahead[length:]
        return taken

    async def ended(self) -> bool:
        while await self.receive():
            pass
        return True


@asynccontextmanager
async def http2_client(host: Host) -> AsyncIterator[Http2Client]:
    async with await trio.open_tcp_stream(*host.insecure) as stream:
        client = Http2Client(stream)
        await client.open()
        yield client
