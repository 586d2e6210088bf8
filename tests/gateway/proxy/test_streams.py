"""Bodies stream through the proxy in both directions: memory is bounded, and an end on one side ends the other."""

from __future__ import annotations

import resource
import sys

import h2.events
import pytest
import trio

from rewound.gateway.proxy import forward
from tests.gateway.connections.http2_client import Http2Client
from tests.gateway.proxy.backends import (
    POD,
    Call,
    make_pod,
    proxying,
    raw_client,
    receive_all,
    receive_head,
    request_head,
    serving,
)
from tests.settling import settled

PART = bytes(1 << 16)
MANY = 1000  # parts: far more than all sockets between client and backend hold
AUTHORIZATION = ((b"authorization", b"Bearer admin-token"),)


def peak_memory() -> int:
    """The peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


async def sent_until_blocked(send: trio.abc.SendStream, counts: list[int]) -> None:
    for _ in range(MANY):
        await send.send_all(PART)
        counts[0] += 1


async def test_a_client_that_does_not_read_holds_back_the_backend() -> None:
    counts = [0]

    async def respond(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await sent_until_blocked(call.stream, counts)

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api)
        before = peak_memory()
        async with raw_client(api) as client:
            await client.send_all(request_head("GET", f"{POD}:{backend.port}/proxy/x"))
            await receive_head(client)
            await settled()
            assert 0 < counts[0] < MANY
            assert peak_memory() - before < MANY * len(PART) // 4
            while counts[0] < MANY:
                assert await client.receive_some(1 << 20)


async def test_a_backend_that_does_not_read_holds_back_the_client() -> None:
    go = trio.Event()

    async def respond(call: Call) -> None:
        await go.wait()
        received = 0
        while received < MANY * len(PART):
            received += len(await call.read())
        await call.reply(b"%d" % received)

    async with serving(respond) as backend, proxying() as api, trio.open_nursery() as nursery:
        await make_pod(api)
        counts, before = [0], peak_memory()
        async with raw_client(api) as client:
            fields = (f"Content-Length: {MANY * len(PART)}",)
            await client.send_all(request_head("PUT", f"{POD}:{backend.port}/proxy/x", *fields))
            nursery.start_soon(sent_until_blocked, client, counts)
            await backend.arrived.wait()
            await settled()
            assert counts[0] < MANY
            assert peak_memory() - before < MANY * len(PART) // 4
            go.set()
            _, rest = await receive_head(client)
            assert rest == b"%d" % (MANY * len(PART))


async def test_http2_windows_hold_back_both_sides() -> None:
    counts = [0]
    go = trio.Event()

    async def respond(call: Call) -> None:
        await go.wait()
        await call.body()
        await call.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await sent_until_blocked(call.stream, counts)

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api)
        async with raw_client(api) as stream:
            client = Http2Client(stream)
            await client.open()
            path = f"{POD}:{backend.port}/proxy/x".encode()
            number = await client.request(path, method=b"POST", end=False, extra=AUTHORIZATION)
            for size in (16384, 16384, 16384, 16383):
                client.connection.send_data(number, bytes(size))
            await client.flush()
            await backend.arrived.wait()
            go.set()
            client.connection.end_stream(number)
            await client.flush()
            while not any(isinstance(one, h2.events.ResponseReceived) for one in client.events):
                assert await client.receive()
            await settled()
            assert 0 < counts[0] < MANY
            data = [one for one in client.events if isinstance(one, h2.events.DataReceived)]
            assert sum(len(one.data) for one in data) <= 65535


async def test_both_directions_at_once() -> None:
    async def echo(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while data := await call.read():
            await call.send(data)

    async with serving(echo) as backend, proxying() as api:
        await make_pod(api)
        async with raw_client(api) as client:
            head = request_head("POST", f"{POD}:{backend.port}/proxy/x", "Transfer-Encoding: chunked")
            await client.send_all(head)
            await receive_head(client)
            received = b""
            for word in (b"ping", b"pong"):
                await client.send_all(b"4\r\n%b\r\n" % word)
                while word not in received:
                    received += await client.receive_some(1000)


@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
async def test_a_response_that_breaks_off_is_cut_off(framing: str) -> None:
    async def respond(call: Call) -> None:
        await call.send(f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n".encode() + b"5\r\nhello\r\n")

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api)
        path = f"{POD}:{backend.port}/proxy/x"
        async with raw_client(api) as client:
            await client.send_all(request_head("GET", path))
            head, rest = await receive_head(client)
            assert head.startswith("HTTP/1.1 200 ")
            with pytest.raises(trio.BrokenResourceError):
                rest += await receive_all(client)
            assert not rest.endswith(b"0\r\n\r\n")
        async with raw_client(api) as stream:
            second = Http2Client(stream)
            await second.open()
            await second.request(path.encode(), extra=AUTHORIZATION)
            while not any(isinstance(one, h2.events.StreamReset) for one in second.events):
                assert await second.receive()


async def test_a_client_that_disconnects_ends_the_request_of_the_backend() -> None:
    started, ended = trio.Event(), trio.Event()

    async def respond(call: Call) -> None:
        if call.line.startswith("GET /later"):
            await call.send(b"HTTP/1.1 200 OK\r\n\r\nx")
        started.set()
        assert await call.read() == b""
        ended.set()

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api)
        for path in ("now", "later"):
            started, ended = trio.Event(), trio.Event()
            async with raw_client(api) as client:
                await client.send_all(request_head("GET", f"{POD}:{backend.port}/proxy/{path}"))
                await started.wait()
            await ended.wait()
        started, ended = trio.Event(), trio.Event()
        async with raw_client(api) as stream:
            second = Http2Client(stream)
            await second.open()
            number = await second.request(f"{POD}:{backend.port}/proxy/now".encode(), extra=AUTHORIZATION)
            await started.wait()
            second.connection.reset_stream(number)
            await second.flush()
            await ended.wait()


async def test_requests_after_a_forwarded_one_are_served() -> None:
    async def respond(call: Call) -> None:
        await call.reply(await call.body())

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api)
        path = f"{POD}:{backend.port}/proxy/x"
        async with raw_client(api) as client:
            first = request_head("POST", path, "Content-Length: 3") + b"abc"
            last = request_head("GET", "/livez", "Connection: close")
            await client.send_all(first + first + last)
            data = await receive_all(client)
        assert data.count(b"HTTP/1.1 200 ") == 3
        assert data.count(b"\r\n\r\nabc") == 2 and data.endswith(b"ok")


async def test_a_backend_may_respond_before_it_has_the_body() -> None:
    async def respond(call: Call) -> None:
        await call.reply(b"too large", status="413 Too Large")

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api)
        async with raw_client(api) as client:
            fields = ("Content-Length: 1000000",)
            await client.send_all(request_head("PUT", f"{POD}:{backend.port}/proxy/x", *fields))
            head, rest = await receive_head(client)
            assert head.startswith("HTTP/1.1 413 ") and "connection: close" in head
            assert rest == b"too large"


async def test_a_stopping_server_ends_what_it_forwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "STOP_SECONDS", 0.0)

    async def respond(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\n\r\nbegun")
        await trio.sleep_forever()

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api)
        async with raw_client(api) as client:
            await client.send_all(request_head("GET", f"{POD}:{backend.port}/proxy/x"))
            await receive_head(client)
            await api.finish()
            with pytest.raises(trio.BrokenResourceError):
                await receive_all(client)
