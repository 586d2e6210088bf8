"""Starts a server whose requests go through a transport: the recordings speak HTTP/1.1, and this translates.

    python -m tests.conformance.through asgi-http2 8080 --data-dir ... --token-auth-file ...

Listens on the port, and sends each request over a connection of its own to `rewound serve`, which gets the flags. http1
and asgi-http1 need no translation: the server listens on the port itself. `workers` is http1 with two processes, over
new connections to either; `etcd` is http1 with a journal that a member of etcd orders.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h11
import trio

TRANSPORTS = ("http1", "http2", "asgi-http1", "asgi-http2", "asgi-http3", "workers", "etcd")
Fields = list[tuple[bytes, bytes]]
LONGEST = 3600  # seconds that a replay may need the server
_HOP = (b"connection", b"transfer-encoding", b"keep-alive", b"upgrade", b"te", b"expect")


@dataclass
class Answer:
    status: int
    fields: Fields
    parts: AsyncIterator[bytes]


Ask = Callable[[bytes, bytes, Fields, bytes], AbstractAsyncContextManager[Answer]]


def main() -> None:
    transport, port, *flags = sys.argv[1:]
    command = [str(Path(sys.executable).parent / "rewound"), "serve", *flags]
    if transport.startswith("asgi"):
        command.append("--transport=asgi")
    if transport == "workers":
        command.append("--workers=2")
    if transport.endswith(("http1", "workers")):
        os.execv(command[0], [*command, "--secure-port=0", f"--insecure-port={port}"])
    if transport == "etcd":
        _serve_on_etcd([*command, "--secure-port=0", f"--insecure-port={port}"])
        return
    trio.run(_translate, transport, int(port), command)


def _serve_on_etcd(command: list[str]) -> None:
    from tests.etcd_members import EtcdMembers

    with tempfile.TemporaryDirectory(prefix="rewound-etcd-") as folder:
        members = EtcdMembers(1, Path(folder))
        members.start()
        server = subprocess.Popen(
            [*command, f"--journal=etcd://127.0.0.1:{members.members[0].port}/recorded"]
        )
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        try:
            server.wait(LONGEST)
        finally:
            members.kill()


async def _translate(transport: str, port: int, command: list[str]) -> None:
    behind = free_port()
    if transport.endswith("http3"):
        from tests.conformance.http3_client import http3_request

        command += [f"--secure-port={free_port()}", f"--quic-bind=127.0.0.1:{behind}"]
        ask = partial(http3_request, "127.0.0.1", behind)
    else:
        command += ["--secure-port=0", f"--insecure-port={behind}"]
        ask = partial(http2_request, "127.0.0.1", behind)
    server = subprocess.Popen(command)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.serve_tcp, partial(_serve, ask), port, host="127.0.0.1"))
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    break
            nursery.cancel_scope.cancel()
    finally:
        server.terminate()
        server.wait(60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


async def _serve(ask: Ask, stream: trio.SocketStream) -> None:
    """One request, then the connection ends."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=2 << 20)
    try:
        request, body = await _read_request(connection, stream)
        fields = [one for one in request.headers.raw_items() if one[0].lower() not in _HOP]
        fields = [(name.lower(), value) for name, value in fields]
        async with ask(request.method, request.target, fields, body) as answer:
            heads = [one for one in answer.fields if not one[0].startswith(b":")]
            await stream.send_all(
                connection.send(
                    h11.Response(status_code=answer.status, headers=[*heads, (b"connection", b"close")])
                )
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_at_end, stream, nursery.cancel_scope)
                async for part in answer.parts:
                    await stream.send_all(connection.send(h11.Data(part)) or b"")
                await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
                nursery.cancel_scope.cancel()
    except* (OSError, EOFError, h11.ProtocolError, trio.BrokenResourceError, trio.TooSlowError):
        pass  # the client gets no response, or an incomplete one
    finally:
        await trio.aclose_forcefully(stream)


async def _read_request(connection: h11.Connection, stream: trio.SocketStream) -> tuple[h11.Request, bytes]:
    request, body = None, b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                await stream.send_all(
                    connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b""
                )
            connection.receive_data(await stream.receive_some(65536))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            return request, body
        else:
            raise EOFError


async def _cancel_at_end(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    try:
        await stream.receive_some(1)
    except trio.BrokenResourceError:
        pass
    scope.cancel()


def pseudo_fields(method: bytes, target: bytes, fields: Fields, scheme: bytes) -> Fields:
    host = next((value for name, value in fields if name == b"host"), b"127.0.0.1")
    pseudo = [(b":method", method), (b":scheme", scheme), (b":authority", host), (b":path", target)]
    return pseudo + [one for one in fields if one[0] != b"host"]


@asynccontextmanager
async def http2_request(
    host: str,
    port: int,
    method: bytes,
    target: bytes,
    fields: Fields,
    body: bytes,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Answer]:
    """A request over HTTP/2 on a connection of its own, without TLS unless there is a context."""
    stream: trio.abc.Stream = await trio.open_tcp_stream(host, port)
    if tls is not None:
        stream = trio.SSLStream(stream, tls, server_hostname=host)
    try:
        client = _Http2(stream)
        yield await client.request(
            pseudo_fields(method, target, fields, b"http" if tls is None else b"https"), body
        )
    finally:
        await trio.aclose_forcefully(stream)


class _Http2:
    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        config = h2.config.H2Configuration(
            client_side=True,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self._h2 = h2.connection.H2Connection(config)
        self._head: Fields = []
        self._parts: list[bytes] = []
        self._ended = False

    async def request(self, fields: Fields, body: bytes) -> Answer:
        self._h2.initiate_connection()
        self._h2.send_headers(1, fields, end_stream=not body)
        await self._flush()
        while body and not self._head:
            size = min(self._h2.local_flow_control_window(1), self._h2.max_outbound_frame_size, len(body))
            if not size:
                await self._receive()
                continue
            self._h2.send_data(1, body[:size], end_stream=size == len(body))
            body = body[size:]
            await self._flush()
        while not self._head:
            await self._receive()
        status = int(dict(self._head)[b":status"])
        return Answer(status, self._head[1:], self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        while self._parts or not self._ended:
            while self._parts:
                yield self._parts.pop(0)
            if not self._ended:
                await self._receive()

    async def _receive(self) -> None:
        data = await self._stream.receive_some(65536)
        if not data:
            raise EOFError
        for event in self._h2.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self._head = list(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                self._parts.append(event.data)
                self._h2.acknowledge_received_data(event.flow_controlled_length, 1)
            elif isinstance(event, h2.events.StreamEnded):
                self._ended = True
            elif (
                isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated) and not self._ended
            ):
                raise EOFError  # after the response, a reset refuses only the rest of the request
        await self._flush()

    async def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data:
            await self._stream.send_all(data)


if __name__ == "__main__":
    main()
