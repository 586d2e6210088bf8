"""A body in parts is produced as fast as its client reads; an incomplete body never looks complete."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
import trio
from trio.testing import MockClock

from rewound.actors.errors import Expired
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.raw_client import ErrorCode, Setting, raw_client, window_update
from tests.gateway.connections.http_server import Client, Host, authority, served
from tests.gateway.observing import Observer
from tests.settling import advance, settled

SMALL = [b"one ", b"", b"two ", b"three"]
WHOLE = b"".join(SMALL)
LARGE = b"x" * 32_000_000  # more than all buffers between server and client


class Producer:
    """A handler whose responses have these parts; counts how many were requested."""

    def __init__(self, parts: list[bytes], failure: Exception | None = None) -> None:
        self.parts = parts
        self.failure = failure
        self.produced = 0
        self.gate: trio.Event | None = None  # before the last part

    async def __call__(self, request: Request) -> Response:
        if request.path == "/plain":
            return Response(200, b"plain")
        return Response(200, b"", parts=Production(self))


class Production:
    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._left = producer.parts.copy()

    def __aiter__(self) -> Production:
        return self

    async def __anext__(self) -> bytes:
        producer = self._producer
        await trio.lowlevel.checkpoint()
        if len(self._left) == 1 and producer.gate is not None:
            await producer.gate.wait()
        if not self._left:
            raise producer.failure or StopAsyncIteration
        producer.produced += 1
        return self._left.pop(0)


async def test_parts_are_chunks_of_http1() -> None:
    async with served(Producer(SMALL)) as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\nGET /plain HTTP/1.1\r\nHost: t\r\n\r\n")
        head = await client.stream.receive_some()
        while not head.endswith(b"plain"):
            head += await client.stream.receive_some()
        assert b"transfer-encoding: chunked" in head and b"content-length: 5\r\n\r\nplain" in head
        assert b"\r\n\r\n4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\nHTTP/1.1 200 OK" in head


async def test_parts_end_with_the_connection_of_http10() -> None:
    async with served(Producer(SMALL)) as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        head, _, body = (await everything(client)).partition(b"\r\n\r\n")
        assert body == WHOLE
        assert b"chunked" not in head and b"connection: close" in head


@pytest.mark.parametrize("http2", [False, True])
async def test_clients_get_all_parts_and_head_produces_none(http2: bool) -> None:
    producer = Producer(SMALL)
    async with served(producer) as host, browser(host, http2) as client:
        assert (await client.get("/")).content == WHOLE
        before = producer.produced
        head = await client.head("/")
        assert (head.status_code, head.content, "content-length" in head.headers) == (200, b"", False)
        assert producer.produced == before
        assert (await client.get("/plain")).content == b"plain"


async def test_http2_parts_on_many_streams_take_turns() -> None:
    async with served(Producer([b"x" * 40_000] * 5)) as host, browser(host, True) as client:
        bodies: list[bytes] = []

        async def get() -> None:
            bodies.append((await client.get("/")).content)

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(get)
        assert bodies == [b"x" * 200_000] * 8


def browser(host: Host, http2: bool) -> httpx.AsyncClient:
    base = f"https://localhost:{host.secure[1]}"
    return httpx.AsyncClient(
        base_url=base, verify=authority().client_context(), trust_env=False, http1=not http2, http2=http2
    )


async def test_nothing_is_produced_while_the_window_is_closed() -> None:
    producer = Producer([b"x" * 100] * 3)
    async with (
        served(producer) as host,
        raw_client(host, values={Setting.INITIAL_WINDOW_SIZE: 0}) as client,
    ):
        stream = await client.request()
        await client.head(stream)
        await client.alive()
        assert producer.produced == 1
        await client.send(window_update(stream, 100))
        assert len((await client.data(stream)).content) == 100
        await client.alive()
        assert producer.produced == 2
        await client.send(window_update(stream, 200))
        ended = False
        while not ended:
            ended = (await client.data(stream)).ends_stream
        assert producer.produced == 3


@pytest.mark.parametrize("secure", [False, True])
async def test_http1_client_that_does_not_read_gets_one_part(mock_clock: MockClock, secure: bool) -> None:
    producer = Producer([LARGE] * 2)
    async with (
        served(producer) as host,
        host.connect_tls() if secure else host.connect() as client,
    ):
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
        await settled()
        assert producer.produced == 1
        for _ in range(60):
            await advance(mock_clock, 30)
        assert (host.statistics.open, host.statistics.timed_out, producer.produced) == (0, 1, 1)


async def test_http2_stream_that_does_not_read_is_reset(mock_clock: MockClock) -> None:
    producer = Producer([b"x" * 100] * 2)
    async with (
        served(producer) as host,
        raw_client(host, values={Setting.INITIAL_WINDOW_SIZE: 1}) as client,
    ):
        stream = await client.request()
        await client.head(stream)
        await client.data(stream)
        await advance(mock_clock, 60)
        assert await client.reset_of(stream) == ErrorCode.CANCEL
        await client.alive()
        assert producer.produced == 1


FAILURES: list[Callable[[], Exception]] = [lambda: RuntimeError("a bug"), lambda: Expired("compacted")]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("http2", [False, True])
async def test_clients_notice_a_body_that_was_cut_off(http2: bool, failure: Callable[[], Exception]) -> None:
    async with served(Producer(SMALL, failure())) as host, browser(host, http2) as client:
        with pytest.raises(
            httpx.RemoteProtocolError if http2 else (httpx.ReadError, httpx.RemoteProtocolError)
        ):
            await client.get("/")
        assert (await client.get("/plain")).content == b"plain"


async def everything(client: Client) -> bytes:
    """What the server sends until it closes the connection."""
    received = b""
    while part := await client.stream.receive_some():
        received += part
    return received


async def test_http10_client_notices_a_body_that_was_cut_off() -> None:
    async with served(Producer(SMALL, RuntimeError("a bug"))) as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises(trio.BrokenResourceError):
            await everything(client)


async def test_reset_of_the_stream_ends_the_production() -> None:
    producer = Producer([b"x" * 100] * 2)
    observer = Observer()
    async with (
        served(producer, observer=observer) as host,
        raw_client(host, values={Setting.INITIAL_WINDOW_SIZE: 30}) as client,
    ):
        stream = await client.request()
        await client.head(stream)
        assert len((await client.data(stream)).content) == 30
        await client.send(b"\0\0\4\3\0" + stream.to_bytes(4, "big") + b"\0\0\0\x08")
        [record] = await observer.ended(1)
        await client.alive()
    assert (record.stages, record.end) == (["received", "started", "complete"], (200, 30, True))
    assert producer.produced == 1


@pytest.mark.parametrize("http2", [False, True])
async def test_observer_gets_the_size_of_all_parts(http2: bool) -> None:
    observer = Observer()
    async with served(Producer(SMALL), observer=observer) as host, browser(host, http2) as client:
        await client.get("/")
        await client.head("/")
        whole, head = await observer.ended(2)
    assert (whole.stages, whole.end) == (["received", "started", "complete"], (200, len(WHOLE), False))
    assert head.end == (200, 0, False)


@pytest.mark.parametrize("http2", [False, True])
async def test_observer_gets_a_failure_as_panic(http2: bool) -> None:
    observer = Observer()
    bug = RuntimeError("a bug")
    async with served(Producer(SMALL, bug), observer=observer) as host, browser(host, http2) as client:
        with pytest.raises(httpx.HTTPError):
            await client.get("/")
        [record] = await observer.ended(1)
    assert (record.stages, record.error) == (["received", "started", "panic", "complete"], bug)
    assert record.cut_off


async def test_stopping_server_completes_the_parts() -> None:
    producer = Producer([b"first ", b"last"])
    producer.gate = trio.Event()
    async with served(producer) as host, host.connect() as plain, raw_client(host) as client:
        await plain.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
        number = await client.request()
        await settled()
        host.stop.set()
        await settled()
        producer.gate.set()
        received = await everything(plain)
        assert b"first " in received and received.endswith(b"last\r\n0\r\n\r\n")
        assert (await client.response(number)).body == b"first last"
