"""More clients than the server can hold: idle connections close, further clients wait, and the server survives."""

import os
import resource
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import AcceptShare, Limits, affordable_connections
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import Client, served
from tests.settling import advance, eventually, settled


async def test_longest_idle_connection_closes_for_a_new_one(mock_clock: MockClock) -> None:
    async with served(limits=Limits(connections=2)) as host, host.connect() as old, host.connect() as young:
        await old.get()
        await advance(mock_clock, 5)
        await young.get()
        async with host.connect() as new:
            assert (await new.get()).status == 200
            assert await old.ended()
            assert (await young.get()).status == 200


async def test_new_connection_waits_while_all_are_busy() -> None:
    release = trio.Event()

    async def handle(request: Request) -> Response:
        if request.path == "/busy":
            await release.wait()
        return Response(200, b"")

    async with served(handle, Limits(connections=1)) as host, host.connect() as busy:
        await busy.send(b"GET /busy HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        async with host.connect() as new:
            await new.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            await settled()
            assert host.statistics.accepted == 1
            release.set()
            assert (await new.reply()).status == 200


@contextmanager
def no_file_descriptors_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_server_survives_lack_of_file_descriptors(mock_clock: MockClock) -> None:
    async with served() as host:
        sock = trio.socket.socket()
        with no_file_descriptors_left():
            await sock.connect(host.insecure)
            await advance(mock_clock, 0.05)
            assert host.statistics.accepted == 0
        await advance(mock_clock, 1.1)
        async with trio.SocketStream(sock) as stream:
            assert (await Client(stream).get()).status == 200


async def test_idle_connections_close_when_file_descriptors_run_out(mock_clock: MockClock) -> None:
    async with served() as host, host.connect() as idle:
        await idle.get()
        sock = trio.socket.socket()
        with no_file_descriptors_left():
            await sock.connect(host.insecure)
            async with trio.SocketStream(sock) as stream:
                assert (await Client(stream).get()).status == 200
            assert await idle.ended()


def test_default_limit_leaves_file_descriptors_for_other_files() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 16 <= affordable_connections() < max(soft, 17)


async def test_stalled_handshakes_delay_other_handshakes_little_and_plain_clients_not_at_all(
    mock_clock: MockClock,
) -> None:
    stalled = 20
    async with served() as host, AsyncExitStack() as connections:
        for number in range(stalled):
            stream = await connections.enter_async_context(await trio.open_tcp_stream(*host.secure))
            await stream.send_all(b"\x16\x03\x01")
            await advance(mock_clock, 0.1)
            await eventually(lambda: host.statistics.accepted == number + 1)  # noqa: B023
        for number in range(3):
            plain = await connections.enter_async_context(host.connect())
            await plain.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            await eventually(lambda: host.statistics.requests == number + 1)  # noqa: B023


def test_less_memory_allows_fewer_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert affordable_connections(256 << 20) == 1638
    assert affordable_connections(1 << 30) == 6553
    assert affordable_connections(1 << 20) == 16


def test_file_descriptors_bound_connections_whatever_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert affordable_connections(1 << 30) == 1024 - 128


class Accepted(trio.abc.Instrument):
    """How many connections a process accepted in each pass of the event loop."""

    def __init__(self) -> None:
        self.count = self._before = 0
        self.passes: list[int] = []

    def record(self, count: int) -> None:
        self.count = count

    def before_io_wait(self, timeout: float) -> None:
        if self.count > self._before:
            self.passes.append(self.count - self._before)
        self._before = self.count


async def test_process_beside_others_accepts_what_waits_until_it_is_ahead_of_them(
    mock_clock: MockClock,
) -> None:
    begin, accepted = trio.Event(), Accepted()
    share = AcceptShare(accepted.record, lambda: accepted.count >= 5, begin)
    trio.lowlevel.add_instrument(accepted)
    async with served(limits=Limits(share=share)) as host, AsyncExitStack() as clients:
        for _ in range(7):
            await clients.enter_async_context(host.connect())
        await settled()
        begin.set()
        await settled()
        assert accepted.passes == [5]
        for _ in range(2):
            await advance(mock_clock, 1)  # the others have not accepted them
        assert host.statistics.accepted == 7
    trio.lowlevel.remove_instrument(accepted)
