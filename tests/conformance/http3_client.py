"""A client of HTTP/3, with aioquic: requests on one connection, at the same time. Certificates are not verified."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf

import trio
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated, QuicEvent, StreamReset

from tests.conformance.through import Answer, Fields, pseudo_fields

ANSWER_SECONDS = 30.0


@asynccontextmanager
async def http3_request(
    host: str, port: int, method: bytes, target: bytes, fields: Fields, body: bytes
) -> AsyncIterator[Answer]:
    """A request on a connection of its own."""
    async with connected(host, port) as client, client.request(method, target, fields, body) as answer:
        yield answer


@asynccontextmanager
async def connected(host: str, port: int) -> AsyncIterator[Http3Client]:
    """Raises EOFError if nothing listens there."""
    sock = trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM)
    await sock.connect((host, port))
    client = Http3Client(sock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        try:
            yield client
        finally:
            await client.close()
            nursery.cancel_scope.cancel()
    sock.close()


@dataclass
class _Stream:
    head: Fields = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    ended: bool = False
    failed: bool = False


class Http3Client:
    def __init__(self, sock: trio.socket.SocketType) -> None:
        self._socket = sock
        configuration = QuicConfiguration(
            alpn_protocols=H3_ALPN,
            is_client=True,
            server_name="localhost",
            verify_mode=ssl.CERT_NONE,
            idle_timeout=120,
        )
        self.quic = QuicConnection(configuration=configuration)
        self.quic.connect(sock.getpeername(), now=trio.current_time())
        self._http3: H3Connection | None = None
        self._streams: dict[int, _Stream] = {}
        self._changed = trio.Event()
        self._waiting = trio.CancelScope()
        self._ended = False
        self.closed_with: int | None = None  # the code that the server closed the connection with
        self._reading = trio.Event()
        self._reading.set()

    def stop_reading(self) -> None:
        """Take no more datagrams, and acknowledge none."""
        self._reading = trio.Event()

    @asynccontextmanager
    async def request(
        self, method: bytes, target: bytes, fields: Fields, body: bytes
    ) -> AsyncIterator[Answer]:
        """Send a request; EOFError if there is no response, or only a part of it."""
        with trio.fail_after(ANSWER_SECONDS):
            number, stream = await self._send(pseudo_fields(method, target, fields, b"https"), body)
            while not stream.head:
                await self._wait(stream)
        parts = self._parts(stream)
        try:
            yield Answer(int(dict(stream.head)[b":status"]), stream.head[1:], parts)
        finally:
            await parts.aclose()
            del self._streams[number]
            if not stream.ended and not self._ended:
                self.quic.stop_stream(number, ErrorCode.H3_REQUEST_CANCELLED)
                with trio.CancelScope(shield=True):
                    await self._flush()

    async def _send(self, fields: Fields, body: bytes) -> tuple[int, _Stream]:
        await self._flush()
        while self._http3 is None:
            await self._wait(None)
        number, stream = self.quic.get_next_available_stream_id(), _Stream()
        self._streams[number] = stream
        self._http3.send_headers(number, fields, end_stream=not body)
        if body:
            self._http3.send_data(number, body, end_stream=True)
        await self._flush()
        return number, stream

    async def _wait(self, stream: _Stream | None) -> None:
        if self._ended or (stream is not None and stream.failed):
            raise EOFError
        await self._changed.wait()

    async def _parts(self, stream: _Stream) -> AsyncGenerator[bytes, None]:
        while True:
            while stream.parts:
                yield stream.parts.pop(0)
            if stream.ended:
                return
            await self._wait(stream)

    async def run(self) -> None:
        while not self._ended:
            data = b""
            self._waiting = trio.CancelScope()
            self._set_timer()
            with self._waiting:
                await self._reading.wait()
                try:
                    data = await self._socket.recv(2**16)
                except OSError:
                    self._ended = True  # nobody listens there
            if data:
                self.quic.receive_datagram(data, self._socket.getpeername(), now=trio.current_time())
            elif not self._ended:
                self.quic.handle_timer(now=trio.current_time())
            while (event := self.quic.next_event()) is not None:
                self._handle(event)
            changed, self._changed = self._changed, trio.Event()
            changed.set()
            await self._flush()

    def _handle(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self._http3 = H3Connection(self.quic)
        elif isinstance(event, ConnectionTerminated):
            self._ended, self.closed_with = True, event.error_code
        elif isinstance(event, StreamReset) and event.stream_id in self._streams:
            self._streams[event.stream_id].failed = True
        for one in self._http3.handle_event(event) if self._http3 is not None else ():
            if not isinstance(one, HeadersReceived | DataReceived) or one.stream_id not in self._streams:
                continue
            stream = self._streams[one.stream_id]
            if isinstance(one, HeadersReceived):
                stream.head = stream.head or list(one.headers)
            elif one.data:
                stream.parts.append(one.data)
            stream.ended = stream.ended or one.stream_ended

    def _set_timer(self) -> None:
        timer = self.quic.get_timer()
        self._waiting.deadline = inf if timer is None else timer

    async def _flush(self) -> None:
        for data, _ in self.quic.datagrams_to_send(now=trio.current_time()):
            try:
                await self._socket.send(data)
            except OSError:
                pass  # as if the network had lost it
        self._set_timer()

    async def close(self) -> None:
        """Reset the stream: no task waits for the response any more."""
        self.quic.close()
        with trio.CancelScope(shield=True):
            await self._flush()
