"""What an attack knows: the server's ports, the tokens of its users, and how to write requests by hand.

Plain HTTP, because the attacker shares two cores with its victim: encryption would only slow the attack down. The
secure port is for attacks by handshakes.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

ADMIN, NOBODY = "benchmark-admin", "benchmark-nobody"
READ = 1 << 16


@dataclass(frozen=True, slots=True)
class Target:
    port: int
    seconds: float
    hostile_port: int = 0  # where servers of the attacker listen that flags of the server name
    secure_port: int = 0

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def connect_secure(self, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
        stream = await trio.open_tcp_stream("127.0.0.1", self.secure_port)
        secure = trio.SSLStream(stream, context, server_hostname="localhost")
        await secure.do_handshake()
        return secure

    async def over(self) -> None:
        await trio.sleep(self.seconds)


Run = Callable[[Target], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Attack:
    run: Run
    who: str  # can do it
    prepare: Run | None = None  # what the attacker does before others are measured
    collection: bool = False  # the server has 60,000 ConfigMaps
    journal: bool = False  # the server has a journal of 700,000 events
    other: str = ADMIN  # token of the other client
    dialect: str = "cluster"  # of the server
    connects: bool = False  # the other client opens a new connection for each get
    flags: Callable[[Path, int], tuple[str, ...]] | None = (
        None  # of the server, for the folder and `hostile_port`
    )


def attacks(who: str, runs: dict[str, Run], **more: Any) -> dict[str, Attack]:
    return {name: Attack(run, who, **more) for name, run in runs.items()}


def head(
    method: str, path: str, *headers: str, token: str = ADMIN, length: int | None = None, kind: str = "json"
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: rewound", *headers]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if length is not None:
        lines += [f"Content-Length: {length}", f"Content-Type: application/{kind}"]
    return "\r\n".join([*lines, "", ""]).encode()


def post(path: str, body: bytes, *, token: str = ADMIN, method: str = "POST", kind: str = "json") -> bytes:
    return head(method, path, token=token, length=len(body), kind=kind) + body


async def read_response(stream: trio.SocketStream) -> int:
    """Read one response with a Content-Length or in chunks; return its status, 0 if the connection ended."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = await stream.receive_some(READ)
        if not part:
            return 0
        data += part
    first, _, rest = data.partition(b"\r\n\r\n")
    lowered = first.lower()
    if b"transfer-encoding: chunked" in lowered:
        while not rest.endswith(b"0\r\n\r\n"):
            part = await stream.receive_some(READ)
            if not part:
                return 0
            rest = rest[-8:] + part
        return int(first[9:12])
    left = int(lowered.partition(b"content-length:")[2].split(b"\r\n")[0] or 0) - len(rest)
    while left > 0:
        part = await stream.receive_some(READ)
        if not part:
            return 0
        left -= len(part)
    return int(first[9:12])


async def repeat(target: Target, request: bytes) -> None:
    """Send a request repeatedly on one connection, and open another one when it is closed."""
    while True:
        try:
            async with await target.connect() as stream:
                while True:
                    await stream.send_all(request)
                    if not await read_response(stream):
                        break
        except (trio.BrokenResourceError, OSError):
            pass
        await trio.sleep(0.01)


async def unread(target: Target, path: str, count: int) -> None:
    """Send the same request on many connections, and never read."""
    streams = []
    for _ in range(count):
        stream = await target.connect()
        await stream.send_all(head("GET", path))
        streams.append(stream)
    await target.over()
    for stream in streams:
        await stream.aclose()


async def many(target: Target, count: int, request: bytes) -> None:
    """`repeat` on several connections until the time is over."""
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(repeat, target, request)
        await target.over()
        nursery.cancel_scope.cancel()
