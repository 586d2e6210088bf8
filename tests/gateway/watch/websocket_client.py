"""A WebSocket client that a test drives frame by frame, also with frames that no well-behaved client sends."""

from __future__ import annotations

import base64
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import orjson
import trio

from tests.actors.object_store import Document
from tests.gateway.api import ADMIN, Api
from tests.gateway.watch.watching import connect, request

KEY = base64.b64encode(b"0123456789abcdef").decode()
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
}
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Frame(NamedTuple):
    opcode: int
    payload: bytes

    @property
    def event(self) -> Document:
        assert self.opcode == TEXT, self
        parsed: Document = orjson.loads(self.payload)
        return parsed

    @property
    def code(self) -> int:
        assert self.opcode == CLOSE, self
        return int.from_bytes(self.payload[:2], "big")


def masked(
    opcode: int, payload: bytes = b"", *, fin: bool = True, mask: bytes = b"\x01\x02\x03\x04"
) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes((fin << 7 | opcode, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((fin << 7 | opcode, 0x80 | 126)) + struct.pack("!H", size)
    else:
        head = bytes((fin << 7 | opcode, 0x80 | 127)) + struct.pack("!Q", size)
    return head + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))


class WebSocketClient:
    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.buffer = b""
        self.status = 0
        self.headers: dict[bytes, bytes] = {}

    async def open(self, path: str, headers: dict[str, str], token: str | None, extra: bytes = b"") -> None:
        await self.stream.send_all(request(path, token, headers) + extra)

    async def read_head(self) -> None:
        while b"\r\n\r\n" not in self.buffer:
            await self._more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        self.status = int(first.split()[1])
        self.headers = dict(line.split(b": ", 1) for line in lines)

    async def send(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(frames))

    async def frame(self) -> Frame:
        first, second = await self._take(2)
        assert first & 0x80, "a server's frame in pieces"
        assert not first & 0x70
        assert not second & 0x80, "a server's frame with a mask"
        size = second & 0x7F
        if size == 126:
            size = struct.unpack("!H", await self._take(2))[0]
            assert size >= 126
        elif size == 127:
            size = struct.unpack("!Q", await self._take(8))[0]
            assert size >= 1 << 16
        return Frame(first & 0x0F, await self._take(size))

    async def frames(self, count: int) -> list[Frame]:
        return [await self.frame() for _ in range(count)]

    async def ended(self) -> bool:
        try:
            return not self.buffer and await self.stream.receive_some(1) == b""
        except trio.BrokenResourceError:
            return True

    async def _take(self, count: int) -> bytes:
        while len(self.buffer) < count:
            await self._more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    async def _more(self) -> None:
        data = await self.stream.receive_some(65536)
        assert data, f"the server closed after {self.buffer[:200]!r}"
        self.buffer += data


@asynccontextmanager
async def websocket_client(
    api: Api,
    path: str,
    *,
    token: str | None = ADMIN,
    headers: dict[str, str] | None = None,
    small: bool = False,
    extra: bytes = b"",
    secure: bool = False,
) -> AsyncIterator[WebSocketClient]:
    stream = await connect(api, small=small, secure=secure)
    raw = WebSocketClient(stream)
    await raw.open(path, {**UPGRADE, **(headers or {})}, token, extra)
    await raw.read_head()
    try:
        yield raw
    finally:
        await trio.aclose_forcefully(stream)
