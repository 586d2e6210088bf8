"""An HTTPS server that speaks HTTP/2 by the library h2, and does what a test says.

async with serving(answer) as server:
    session = Http2Session(server.target(), nursery)
    peer = await server.peer(0)                            # the first connection
    number = await peer.request("/api/v1/pods")            # the stream of a request for that path
    await peer.respond(number, b"{}", end=False)

`answer` may respond at once: it gets the headers of a request. h2 knows nothing of our frames.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import trio

from rewound.client.credentials import Credential, CredentialSource, FixedCredential
from rewound.client.target import Target
from tests.client import pki

Answer = Callable[[dict[str, str]], bytes | None]
_ENDED = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


@cache
def certificate() -> tuple[str, str]:
    folder = Path(tempfile.mkdtemp(prefix="http2-server-"))
    (folder / "tls.crt").write_text(pki.server().pem)
    (folder / "tls.key").write_text(pki.server().key)
    return str(folder / "tls.crt"), str(folder / "tls.key")


def server_context(protocols: Sequence[str], *, client_ca: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate())
    context.set_alpn_protocols(list(protocols))
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=pki.authority().pem)
    return context


class Peer:
    """The server's side of one connection."""

    def __init__(self, stream: trio.SSLStream[Any], settings: dict[int, int], answer: Answer) -> None:
        self.stream = stream
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self.requests: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytes] = {}
        self.resets: dict[int, int] = {}
        self.goaways: list[h2.events.ConnectionTerminated] = []
        self.pings = 0
        self.ended = False  # the client has closed the connection
        self.opens_windows = True
        self.hangs = False
        self._settings = settings
        self._answer = answer
        self._lock = trio.Lock()

    async def run(self) -> None:
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=self._settings)
        self.h2.initiate_connection()
        try:
            await self.flush()
            while data := await self.stream.receive_some(1 << 16):
                if self.hangs:
                    await trio.sleep_forever()
                try:
                    events = self.h2.receive_data(bytes(data))
                except h2.exceptions.ProtocolError as error:
                    raise AssertionError("the client broke a rule") from error
                for event in events:
                    await self._take(event)
                await self.flush()
        except _ENDED:
            pass
        self.ended = True

    async def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            assert event.stream_id is not None and event.headers is not None
            self.requests[event.stream_id] = headers = {str(a): str(b) for a, b in event.headers}
            self.bodies[event.stream_id] = b""
            body = self._answer(headers)
            if body is not None:
                await self.respond(event.stream_id, body)
        elif isinstance(event, h2.events.DataReceived):
            assert event.stream_id is not None and event.flow_controlled_length is not None
            self.bodies[event.stream_id] += event.data or b""
            if self.opens_windows:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            assert event.stream_id is not None
            self.resets[event.stream_id] = int(event.error_code or 0)
        elif isinstance(event, h2.events.PingReceived):
            self.pings += 1
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goaways.append(event)

    async def flush(self) -> None:
        async with self._lock:
            await self.stream.send_all(self.h2.data_to_send())

    async def raw(self, data: bytes) -> None:
        async with self._lock:
            await self.stream.send_all(data)

    async def respond(
        self, number: int, body: bytes = b"", *, status: int = 200, end: bool = True, **headers: str
    ) -> None:
        given = [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.h2.send_headers(number, [(":status", str(status)), *given])
        await self.send(number, body, end=end)

    async def send(self, number: int, body: bytes, *, end: bool = False) -> bytes:
        """Send as much of a body as the windows allow; returns the rest."""
        while body and (window := min(self.h2.local_flow_control_window(number), 16384)):
            self.h2.send_data(number, body[:window])
            body = body[window:]
        if end and not body:
            self.h2.end_stream(number)
        await self.flush()
        return body

    async def request(self, path: str) -> int:
        """The newest stream with a request for a path."""
        with trio.fail_after(60):
            while True:
                for number, headers in reversed(self.requests.items()):
                    if headers[":path"].partition("?")[0] == path:
                        return number
                await trio.sleep(0.01)


@dataclass
class Http2Server:
    port: int = 0
    peers: list[Peer] = field(default_factory=list)
    plain: list[bytes] = field(default_factory=list)  # heads of requests over HTTP/1.1
    names: list[str] = field(default_factory=list)  # of the client certificates, by connection

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def target(self, source: CredentialSource | None = None, **given: Any) -> Target:
        credentials = source or FixedCredential(Credential("Bearer t"))
        return Target(self.url, credentials, "a test", pki.authority().pem.encode(), **given)

    async def peer(self, index: int) -> Peer:
        with trio.fail_after(60):
            while len(self.peers) <= index:
                await trio.sleep(0.01)
        return self.peers[index]


def waits(_: dict[str, str]) -> bytes | None:
    """An answer that leaves everything to the test."""
    return None


def empty(headers: dict[str, str]) -> bytes | None:
    """Documents at once; watches are left to the test."""
    return None if "watch=1" in headers[":path"] else b"{}"


@asynccontextmanager
async def serving(
    answer: Answer = waits,
    settings: dict[int, int] | None = None,
    protocols: Sequence[str] = ("h2", "http/1.1"),
    *,
    client_ca: bool = False,
    run: Callable[[Peer], Any] = Peer.run,
) -> AsyncIterator[Http2Server]:
    """`run` is what happens on each HTTP/2 connection."""
    server, context = Http2Server(), server_context(protocols, client_ca=client_ca)

    async def serve(socket: trio.SocketStream) -> None:
        stream = trio.SSLStream(socket, context, server_side=True, https_compatible=True)
        try:
            await stream.do_handshake()
            subject = (stream.getpeercert() or {}).get("subject", ())  # type: ignore[attr-defined]
            server.names.append("".join(value for part in subject for _, value in part))
            if stream.selected_alpn_protocol() == "h2":  # type: ignore[attr-defined]
                peer = Peer(stream, settings or {}, answer)
                server.peers.append(peer)
                await run(peer)
            else:
                await plain(stream)
        except _ENDED:
            pass

    async def plain(stream: trio.SSLStream[Any]) -> None:
        head = b""
        while data := await stream.receive_some(1 << 16):
            head += data
            if head.endswith(b"\r\n\r\n"):
                server.plain.append(head)
                head = b""
                await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        server.port = listener.socket.getsockname()[1]
        yield server
        nursery.cancel_scope.cancel()
