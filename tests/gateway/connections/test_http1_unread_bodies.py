"""Bodies over HTTP/1.1 that do not arrive together with their head: the handler reads them, or responds without."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import EndReason, Finished, Request, Response
from tests.gateway.connections.http_server import Client, served
from tests.gateway.observing import Observer
from tests.settling import advance, settled

KIB, MIB = 1024, 1024 * 1024
GET = b"GET /next HTTP/1.1\r\nHost: t\r\n\r\n"


def post(length: int, *, more: bytes = b"") -> bytes:
    return b"POST /post HTTP/1.1\r\nHost: t\r\n%bContent-Length: %d\r\n\r\n" % (more, length)


CHUNKED = b"POST /post HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"


async def refuse(request: Request) -> Response:
    """Responds without reading the body; to GET with its path."""
    if request.method == "GET":
        return Response(200, request.path.encode())
    return Response(401, b"who?")


async def echo(request: Request) -> Response:
    return Response(200, request.body)


async def is_open(client: Client) -> bool:
    reply = await client.request(GET)
    return (reply.status, reply.body) == (200, b"/next")


async def test_response_comes_before_the_body() -> None:
    async with served(refuse, reads=False) as host, host.connect() as client:
        assert (await client.request(post(100 * KIB))).status == 401


async def test_body_with_its_head_is_not_read_again() -> None:
    async def handle(request: Request) -> Response:
        return Response(200, b"%d %a" % (len(request.body), request.arriving is None))

    async with served(handle, reads=False) as host, host.connect() as client:
        assert (await client.request(post(3) + b"abc")).body == b"3 True"


async def test_connection_continues_after_a_discarded_body() -> None:
    async with served(refuse, reads=False) as host, host.connect() as client:
        assert (await client.request(post(256 * KIB))).status == 401
        await client.send(b"x" * 256 * KIB)
        assert await is_open(client)


async def test_chunked_body_is_discarded_with_its_trailers() -> None:
    async with served(refuse, reads=False) as host, host.connect() as client:
        assert (await client.request(CHUNKED)).status == 401
        await client.send(b"5\r\nhello\r\n0\r\nA: b\r\n\r\n")
        assert await is_open(client)


async def test_large_rest_of_an_unread_body_ends_the_connection() -> None:
    async with served(refuse, reads=False) as host, host.connect() as client:
        reply = await client.request(post(256 * KIB + 1))
        assert (reply.status, reply.headers[b"connection"]) == (401, b"close")
        assert await client.ended()


async def test_endless_unread_chunks_end_the_connection() -> None:
    chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
    async with served(refuse, reads=False) as host, host.connect() as client:
        assert (await client.request(CHUNKED)).status == 401
        await client.send(chunk * 17)
        assert await client.ended()


async def test_malformed_rest_of_an_unread_body_gets_no_second_response() -> None:
    async with served(refuse, reads=False) as host, host.connect() as client:
        assert (await client.request(CHUNKED)).status == 401
        await client.send(b"zz\r\n")
        assert await client.ended()


async def test_discarded_rest_that_never_comes_ends_the_connection(mock_clock: MockClock) -> None:
    async with served(refuse, reads=False) as host, host.connect() as client:
        assert (await client.request(post(10))).status == 401
        await advance(mock_clock, Limits().transfer_seconds + 2)
        assert await client.ended()


async def test_connection_is_idle_after_a_discarded_body(mock_clock: MockClock) -> None:
    """The connection closes silently: the client would take a response for that of its next request."""
    async with served(refuse, reads=False) as host, host.connect() as client:
        assert (await client.request(post(10))).status == 401
        await client.send(b"x" * 10)
        await settled()
        assert host.statistics.idle == 1
        await advance(mock_clock, Limits().idle_seconds + 2)
        assert await client.ended()


async def test_head_behind_a_discarded_body_has_its_own_time(mock_clock: MockClock) -> None:
    async with served(refuse, reads=False) as host, host.connect() as client:
        assert (await client.request(post(10))).status == 401
        await advance(mock_clock, 25)
        await client.send(b"x" * 10 + GET[:10])
        await advance(mock_clock, 25)
        assert (await client.request(GET[10:])).body == b"/next"


async def test_unwanted_body_gets_no_continue() -> None:
    """The client may or may not send the body, so the next request cannot be found: the connection closes."""
    async with served(refuse, reads=False) as host, host.connect() as client:
        reply = await client.request(post(10, more=b"Expect: 100-continue\r\n"))
        assert (reply.status, reply.headers[b"connection"]) == (401, b"close")
        assert await client.ended()


async def test_wanted_body_gets_continue_once_the_handler_reads_it() -> None:
    entered, wanted = trio.Event(), trio.Event()

    async def handle(request: Request) -> Response:
        entered.set()
        await wanted.wait()
        assert request.arriving is not None
        return Response(200, await request.arriving())

    async with served(handle, reads=False) as host, host.connect() as client:
        await client.send(post(2, more=b"Expect: 100-continue\r\n"))
        await entered.wait()
        await settled()
        wanted.set()
        assert (await client.reply()).status == 100
        assert (await client.request(b"hi")).body == b"hi"


async def test_requests_behind_a_body_are_handled_after_it() -> None:
    async with served(echo) as host, host.connect() as client:
        await client.send(post(6) + b"abc")
        await settled()
        await client.send(b"def" + post(2) + b"gh" + GET + post(4) + b"ij")
        assert [(await client.reply()).body for _ in range(3)] == [b"abcdef", b"gh", b""]
        assert (await client.request(b"kl")).body == b"ijkl"


async def test_last_request_behind_a_body_gets_its_response() -> None:
    async with served(echo) as host, host.connect() as client:
        await client.send(post(6) + b"abc")
        await settled()
        await client.send(b"def" + GET.replace(b"Host: t", b"Host: t\r\nConnection: close") + GET)
        first, second = await client.reply(), await client.reply()
        assert (first.body, first.headers.get(b"connection")) == (b"abcdef", None)
        assert (second.status, second.headers[b"connection"]) == (200, b"close")
        assert await client.ended()


async def test_request_behind_a_body_gets_its_response_from_a_stopping_server() -> None:
    entered, proceed = trio.Event(), trio.Event()

    async def handle(request: Request) -> Response:
        entered.set()
        await proceed.wait()
        return Response(200, request.path.encode())

    async with served(handle) as host, host.connect() as client:
        await client.send(post(6) + b"abc")
        await settled()
        await client.send(b"def" + GET)
        await entered.wait()
        host.stop.set()
        await settled()
        proceed.set()
        assert [(await client.reply()).body for _ in range(2)] == [b"/post", b"/next"]
        assert await client.ended()


class ShortStream:
    """A watch that ends at once."""

    binary = False

    async def run(self, _connection: object, _framing: object) -> Finished:
        return Finished(EndReason.TIME_UP)


async def test_websocket_behind_a_body_is_accepted() -> None:
    async def handle(request: Request) -> Response:
        if request.method == "GET":
            return Response(200, b"", stream=ShortStream())  # type: ignore[arg-type]
        return Response(200, request.body)

    upgrade = (
        b"GET /watch HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    async with served(handle) as host, host.connect() as client:
        await client.send(post(6) + b"abc")
        await settled()
        await client.send(b"def" + upgrade)
        assert (await client.reply()).body == b"abcdef"
        assert (await client.reply()).status == 101


async def test_requests_behind_a_discarded_body_are_handled() -> None:
    async with served(refuse, reads=False) as host, host.connect() as client:
        await client.send(GET + post(6) + b"abc")
        assert [(await client.reply()).status for _ in range(2)] == [200, 401]
        await client.send(b"def" + GET + post(4))
        assert [(await client.reply()).status for _ in range(2)] == [200, 401]


async def test_client_that_leaves_in_its_body_is_cut_off_once() -> None:
    observer = Observer()
    async with served(echo, observer=observer) as host:
        async with host.connect() as client:
            await client.send(post(6) + b"abc")
            await settled()
        (record,) = await observer.ended(1)
    assert record.end == (0, 0, True)
    assert host.statistics.failed == 0


async def test_large_body_waits_for_memory() -> None:
    memory = MemoryBudget(4 * MIB)
    other = Request("POST", "/", "", {}, b"", None, user="other")  # type: ignore[arg-type]
    memory.take(other, 2 * MIB)

    async def handle(request: Request) -> Response:
        request.user = request.path
        assert request.arriving is not None
        return Response(200, b"%d" % len(await request.arriving()))

    async with (
        served(handle, reads=False, memory=memory) as host,
        host.connect() as one,
        host.connect() as two,
    ):
        await one.send(post(2 * MIB) + b"x" * KIB)
        await settled()
        assert (memory.held, memory.statistics().waiting) == (4 * MIB, 0)
        await two.send(post(2 * MIB).replace(b"/post", b"/two"))
        await settled()
        assert (memory.held, memory.statistics().waiting) == (4 * MIB, 1)
        memory.release(other)
        await settled()
        assert (memory.held, memory.statistics().waiting) == (4 * MIB, 0)
        for client in (one, two):
            await client.send(b"x" * (2 * MIB - KIB if client is one else 2 * MIB))
            assert (await client.reply()).body == b"%d" % (2 * MIB)
        await settled()
        assert memory.held == 0


async def test_chunked_body_takes_memory_as_it_grows() -> None:
    memory = MemoryBudget(4 * MIB)
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"

    async def handle(request: Request) -> Response:
        request.user = "user"
        assert request.arriving is not None
        return Response(200, b"%d" % len(await request.arriving()))

    async with served(handle, reads=False, memory=memory) as host, host.connect() as client:
        await client.send(CHUNKED)
        held = []
        for _ in range(20):
            await client.send(chunk)
            await settled()
            held.append(memory.held)
        assert held[0] == 0
        assert held == sorted(held)
        assert 20 * 0x8000 - 64 * KIB <= held[-1] <= 20 * 0x8000 + 256 * KIB
        await client.send(b"0\r\n\r\n")
        assert (await client.reply()).body == b"%d" % (20 * 0x8000)
        await settled()
        assert memory.held == 0


async def test_wait_for_memory_is_not_the_clients_time(mock_clock: MockClock) -> None:
    memory = MemoryBudget(4 * MIB)
    others = [Request("POST", "/", "", {}, b"", None, user=user) for user in "ab"]  # type: ignore[arg-type]
    for other in others:
        memory.take(other, 2 * MIB)

    async def handle(request: Request) -> Response:
        request.user = "user"
        assert request.arriving is not None
        return Response(200, b"%d" % len(await request.arriving()))

    async with served(handle, reads=False, memory=memory) as host, host.connect() as client:
        await client.send(CHUNKED + b"20000\r\n" + b"x" * 0x10000)
        await settled()
        assert memory.statistics().waiting == 1
        for _ in range(9):
            await advance(mock_clock, 1)
        memory.release(others[0])
        await advance(mock_clock, 28)
        await client.send(b"x" * 0x10000 + b"\r\n0\r\n\r\n")
        assert (await client.reply()).body == b"%d" % 0x20000


@pytest.mark.parametrize("end", ["left", "stalled", "malformed", "too large", "stopped"])
async def test_memory_is_given_back_however_a_body_ends(end: str, mock_clock: MockClock) -> None:
    memory = MemoryBudget(8 * MIB)

    async def handle(request: Request) -> Response:
        request.user = "user"
        assert request.arriving is not None
        return Response(200, await request.arriving())

    async with served(handle, reads=False, memory=memory) as host:
        async with host.connect() as client:
            await client.send(CHUNKED + b"fffff\r\n" + b"x" * 300_000)
            await settled()
            assert memory.held > 0
            if end == "stalled":
                await advance(mock_clock, 60)
            elif end == "malformed":
                await client.send(b"x" * (0xFFFFF - 300_000) + b"\r\nzz\r\n")
            elif end == "too large":
                await client.send(b"x" * (0xFFFFF - 300_000) + (b"\r\nfffff\r\n" + b"x" * 0xFFFFF) * 3)
            elif end == "stopped":
                host.stop.set()
                await settled()
                await advance(mock_clock, 5)
            if end != "left":
                await settled()
                assert memory.held == 0
        await settled()
        assert memory.held == 0
