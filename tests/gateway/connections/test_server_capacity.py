"""More clients than the server can hold: those at rest make room, the others wait, nobody crashes."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import trio
from trio.testing import MockClock

from gateway.connections.limits import Limits, affordable_connections
from gateway.requests.request import Request, Response
from tests.gateway.connections.http_server import Client, served
from tests.gateway.idle import advance, until_idle


async def test_the_connection_longest_at_rest_makes_room(mock_clock: MockClock) -> None:
    async with served(limits=Limits(connections=2)) as host, host.connect() as old, host.connect() as young:
        await old.get()
        await advance(mock_clock, 5)
        await young.get()
        async with host.connect() as newcomer:
            assert (await newcomer.get()).status == 200
            assert await old.ended()
            assert (await young.get()).status == 200


async def test_a_newcomer_waits_while_all_are_busy() -> None:
    release = trio.Event()

    async def handle(request: Request) -> Response:
        if request.path == "/busy":
            await release.wait()
        return Response(200, b"")

    async with served(handle, Limits(connections=1)) as host, host.connect() as busy:
        await busy.send(b"GET /busy HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        async with host.connect() as newcomer:
            await newcomer.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            await until_idle()
            assert host.statistics.accepted == 1
            release.set()
            assert (await newcomer.reply()).status == 200


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


async def test_running_out_of_file_descriptors_is_survived(mock_clock: MockClock) -> None:
    async with served() as host:
        sock = trio.socket.socket()
        with no_file_descriptors_left():
            await sock.connect(host.insecure)
            await advance(mock_clock, 0.05)
            assert host.statistics.accepted == 0
        await advance(mock_clock, 1.1)
        async with trio.SocketStream(sock) as stream:
            assert (await Client(stream).get()).status == 200


async def test_connections_at_rest_make_room_when_file_descriptors_run_out(mock_clock: MockClock) -> None:
    async with served() as host, host.connect() as resting:
        await resting.get()
        sock = trio.socket.socket()
        with no_file_descriptors_left():
            await sock.connect(host.insecure)
            async with trio.SocketStream(sock) as stream:
                assert (await Client(stream).get()).status == 200
            assert await resting.ended()


def test_the_default_leaves_room_for_other_files() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 16 <= affordable_connections() < max(soft, 17)
