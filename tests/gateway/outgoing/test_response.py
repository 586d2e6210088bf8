"""Parses responses of webhooks: well-formed ones are read, ambiguous or too large ones are errors."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rewound.actors.access.remote.deadlines import Deadlines, TooSlow
from rewound.actors.access.remote.slots import Slots
from rewound.gateway.outgoing.response import (
    LARGE_BODY,
    MAX_CHUNKS,
    MAX_HEAD,
    Disconnected,
    Response,
    ResponseError,
    ResponseReader,
    ResponseTooLarge,
)
from tests.cases import cases

LARGEST = 1000
OK = b"HTTP/1.1 200 OK\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n"


class Received:
    """A stream whose bytes have all arrived, in parts of some size."""

    def __init__(self, sent: bytes, part: int) -> None:
        self._parts = [sent[start : start + part] for start in range(0, len(sent), part)]

    async def send(self, data: bytes) -> None:
        raise NotImplementedError

    async def receive(self) -> bytes:
        return self._parts.pop(0) if self._parts else b""

    def readable(self) -> bool:
        return True

    def expire(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


async def read(sent: bytes, part: int = 1 << 16) -> Response:
    return await ResponseReader(Received(sent, part), LARGEST).read()


@cases("part", [1, 7, 1 << 16])
@cases(
    ("sent", "status", "body", "reusable"),
    [
        (OK + b"Content-Length: 4\r\n\r\nbody", 200, b"body", True),
        (OK + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody", 200, b"body", True),
        (OK + b"content-length:0\r\n\r\n", 200, b"", True),
        (b"HTTP/1.1 201\r\nContent-Length: 2\r\nX-A: \t b \t\r\n\r\n{}", 201, b"{}", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nbod\r\n1;x=y\r\ny\r\n0\r\n\r\n", 200, b"body", True),
        (OK + b"Transfer-Encoding: Chunked\r\n\r\n00A\r\n0123456789\r\n0\r\nT: t\r\n\r\n", 200, b"0123456789", True),
        (OK + b"Connection: Close\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}", False),
        (OK + b"\r\nuntil the end", 200, b"until the end", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}", False),
        (INTERIM + OK + b"Content-Length: 0\r\n\r\n", 200, b"", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 500 Bad\r\nContent-Length: 99999999\r\n\r\n", 500, b"", False),
    ],
)  # fmt: skip
async def test_well_formed_responses_are_read(
    part: int, sent: bytes, status: int, body: bytes, reusable: bool
) -> None:
    found = await read(sent, part)
    assert (found.status, found.body, found.reusable) == (status, body, reusable)


@cases("part", [1, 7, 1 << 16])
@cases(
    ("sent", "body", "trailers", "reusable"),
    [
        (OK + b"Content-Length: 4\r\n\r\nbody", b"body", [], True),
        (OK + b"Content-Length: 4\r\n\r\nbody!", b"body", [], False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nbod\r\n1;x=y\r\ny\r\n0\r\n\r\n", b"body", [], True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n0\r\nT: t \r\n\r\n", b"bo", [(b"t", b"t")], True),
        (OK + b"\r\nuntil the end", b"until the end", [], False),
        (b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", b"no", [], True),
        (b"HTTP/1.1 304 Same\r\nContent-Length: 2\r\n\r\n", b"", [], True),
    ],
)  # fmt: skip
async def test_body_may_arrive_in_parts(
    part: int, sent: bytes, body: bytes, trailers: list[tuple[bytes, bytes]], reusable: bool
) -> None:
    """Of any size, and of any status."""
    reader = ResponseReader(Received(sent, part))
    await reader.start()
    received = b""
    while arrived := await reader.part():
        received += arrived
    if part > len(sent):  # what follows later is seen when the connection is used again
        assert reader.reusable is reusable
    assert (received, reader.trailers) == (body, trailers)


async def test_response_to_a_head_request_has_no_body() -> None:
    reader = ResponseReader(Received(OK + b"Content-Length: 4\r\n\r\n", 1 << 16))
    await reader.start(bodiless=True)
    assert (await reader.part(), reader.reusable) == (b"", True)


async def test_switch_of_protocols_only_where_it_is_asked_for() -> None:
    switch = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"
    reader = ResponseReader(Received(INTERIM + switch + b"rest", 1 << 16))
    head = await reader.start(upgrading=True)
    assert (head.status, head.raw, reader.take_rest(), reader.take_rest()) == (101, switch, b"rest", b"")
    assert not reader.reusable
    with pytest.raises(ResponseError, match="switched"):
        await ResponseReader(Received(switch, 1 << 16)).start()


async def test_bytes_after_the_response_end_the_connection() -> None:
    assert not (await read(OK + b"Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n")).reusable


@cases("part", [5, 1 << 16])
@cases(
    "sent",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 99 X\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20 + OK + b"\r\n",
        OK + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
        OK + b"Content-Length: -4\r\n\r\n",
        OK + b"Content-Length: +4\r\n\r\nbody",
        OK + b"Content-Length: 4, 4\r\n\r\nbody",
        OK + b"Content-Length: \r\n\r\nbody",
        OK + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 2000 + b"\r\na\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * (LARGEST // 2) + b"\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 1000 + b"\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"A: b\r\n folded\r\nContent-Length: 0\r\n\r\n",
        OK + b"A : b\r\nContent-Length: 0\r\n\r\n",
        OK + b"A: b\nB: c\r\nContent-Length: 0\r\n\r\n",
        OK + b"A: " + b"x" * MAX_HEAD + b"\r\n\r\n",
        OK + b"A: b\r\n" * 1000 + b"\r\n",
    ],
)
async def test_ambiguous_or_endless_responses_are_errors(sent: bytes, part: int) -> None:
    with pytest.raises(ResponseError):
        await read(sent, part)


@cases(
    "sent",
    [
        OK + b"Content-Length: 1001\r\n\r\n",
        OK + b"Content-Length: 999999999999\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + b"x" * 1000 + b"\r\n1\r\n",
        OK + b"\r\n" + b"x" * 1001,
    ],
)
async def test_body_that_is_too_large(sent: bytes) -> None:
    with pytest.raises(ResponseTooLarge, match="more than 1000 bytes"):
        await read(sent)


async def test_number_of_chunks_is_bounded() -> None:
    sent = OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * (MAX_CHUNKS + 1)
    with pytest.raises(ResponseError, match="chunks"):
        await ResponseReader(Received(sent, 1 << 16), 1 << 20).read()


@cases(
    ("sent", "began"),
    [
        (b"", False),
        (b"HTTP/1.1 2", True),
        (OK + b"Content-Length: 4\r\n\r\nbod", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbod", True),
    ],
)
async def test_connection_that_ends_too_early(sent: bytes, began: bool) -> None:
    with pytest.raises(Disconnected) as raised:
        await read(sent)
    assert raised.value.began is began


LARGE = b"x" * (LARGE_BODY + 1)
FORMS = {
    "length": b"Content-Length: %d\r\n\r\n%b" % (len(LARGE), LARGE),
    "chunks": b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(LARGE), LARGE),
    "end": b"\r\n" + LARGE,
}


@pytest.mark.parametrize("form", FORMS)
async def test_large_bodies_wait_for_places(form: str, autojump_clock: trio.testing.MockClock) -> None:
    places = Slots(1, Deadlines())
    deadline = trio.current_time() + 10

    def reader(sent: bytes) -> ResponseReader:
        return ResponseReader(Received(sent, 1 << 16), 2 << 20, places, deadline)

    first = reader(b"HTTP/1.1 200 OK\r\n" + FORMS[form])
    assert (await first.read()).body == LARGE
    small = reader(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    assert (await small.read()).body == b"{}"
    with pytest.raises(TooSlow):
        await reader(b"HTTP/1.1 200 OK\r\n" + FORMS[form]).read()
    assert trio.current_time() == deadline
    first.release()
    first.release()
    small.release()
    deadline += 10
    last = reader(b"HTTP/1.1 200 OK\r\n" + FORMS[form])
    assert (await last.read()).body == LARGE
    assert not places.take_nowait()
    last.release()
    assert places.idle
