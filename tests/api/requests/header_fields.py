"""Sends requests with any header fields, also repeated ones, over HTTP/1.1 and HTTP/2."""

from __future__ import annotations

from functools import partial

import h2.events
import pytest
import trio

from tests.gateway.api import ADMIN, Api
from tests.gateway.connections.http2_client import Http2Client
from tests.gateway.watch.watching import connect

Fields = list[tuple[str, str]]
AUTHORIZED: Fields = [("authorization", f"Bearer {ADMIN}")]
both_protocols = pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/2"])


async def send(
    api: Api, protocol: str, method: str, path: str, fields: Fields, body: bytes = b""
) -> tuple[int, bytes]:
    """Status and body of the response."""
    if body:
        fields = [*fields, ("content-length", str(len(body)))]
    stream = await connect(api)
    try:
        if protocol == "HTTP/2":
            return await _send_http2(stream, method, path, fields, body)
        return await _send_http1(stream, method, path, fields, body)
    finally:
        await trio.aclose_forcefully(stream)


async def _send_http1(
    stream: trio.abc.Stream, method: str, path: str, fields: Fields, body: bytes
) -> tuple[int, bytes]:
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    head = f"{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n{lines}\r\n"
    await stream.send_all(head.encode() + body)
    received = b""
    while more := await stream.receive_some():
        received += more
    head_received, _, rest = received.partition(b"\r\n\r\n")
    return int(head_received.split()[1]), rest


async def _send_http2(
    stream: trio.abc.Stream, method: str, path: str, fields: Fields, body: bytes
) -> tuple[int, bytes]:
    client = Http2Client(stream)
    await client.open()
    encoder = client.connection.encoder
    # Its Huffman encoder takes seconds for 100 kB.
    encoder.encode = partial(encoder.encode, huffman=False)  # type: ignore[method-assign]
    extra = tuple((name.encode(), value.encode()) for name, value in fields)
    number = await client.request(path.encode(), method=method.encode(), end=not body, extra=extra)
    if body:
        client.connection.send_data(number, body, end_stream=True)
        await client.flush()
    await client.until(h2.events.StreamEnded, number)
    received = [event.data for event in client.events if isinstance(event, h2.events.DataReceived)]
    return int(await client.status(number)), b"".join(received)
