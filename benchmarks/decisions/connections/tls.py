"""docs/decisions/0005-tls.md: TLS on memory BIOs that all connections share, and trio.SSLStream.

The client is a process of its own, so that this process spends CPU and memory as a server alone.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from benchmarks.baselines.certificate import write_certificate
from benchmarks.decisions.apart import SPAWN, apart
from benchmarks.decisions.measure import Effort, effort_of_command_line, show
from benchmarks.servers.memory import memory
from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.tls import SharedBios, TlsTransport

REQUEST = b"r" * 300
RESPONSE = b"a" * 1200
LARGE = b"a" * 32768  # as a list's response
SHARED, OWN, TRIO = "BIOs that all connections share", "BIOs for each connection", "trio.SSLStream"
Converse = Callable[[socket.socket, bytes, Callable[[], None]], Awaitable[None]]


def main(effort: Effort) -> None:
    trips, connections = (2, 2) if effort.quick else (5000, 400)
    forms = (SHARED, OWN, TRIO)
    run = _here if effort.quick else apart
    show("CPU of a round trip of 300 B and 1.2 kB", {form: run(_cpu, form, trips) for form in forms}, "us")
    show(
        "memory of an idle connection that sent 32 kB",
        {form: run(_memory, form, connections) for form in forms},
        "kB",
    )


def _here(measure: Callable[[str, int], float], form: str, count: int) -> float:
    return measure(form, count)


def _cpu(form: str, trips: int) -> float:
    marks: list[float] = []
    _serve(form, 1, trips, RESPONSE, lambda: marks.append(time.process_time()))
    step = max(1, len(marks) // 20)
    spent = [later - sooner for sooner, later in zip(marks[::step], marks[step::step], strict=False)]
    return min(spent) / step * 1e6


def _memory(form: str, connections: int) -> float:
    done: list[None] = []
    before: list[float] = []

    def mark() -> None:
        done.append(None)
        if len(done) == 1:  # what the first needs beyond itself is not counted
            before.append(memory([os.getpid()]).anonymous_mb)

    after = _serve(form, connections, 1, LARGE, mark)
    return (after - before[0]) * 1024 / max(1, connections - 1)


def _serve(form: str, connections: int, trips: int, response: bytes, mark: Callable[[], None]) -> float:
    """Serve some connections until each has had its round trips; the memory in use before they close."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*write_certificate(Path(folder)))
        client = SPAWN.Process(
            target=_client, args=(listener.getsockname()[1], connections, trips, len(response))
        )
        client.start()
        try:
            return trio.run(_run, listener, connections, trips, response, _converse(form, context), mark)
        finally:
            client.terminate()
            client.join()


async def _run(
    listener: socket.socket,
    connections: int,
    trips: int,
    response: bytes,
    converse: Converse,
    mark: Callable[[], None],
) -> float:
    left = connections * trips
    over = trio.Event()

    def count() -> None:
        nonlocal left
        left -= 1
        mark()
        if not left:
            over.set()

    async def serve(sock: socket.socket) -> None:
        with sock:
            await converse(sock, response, count)

    async def accept(nursery: trio.Nursery) -> None:
        for _ in range(connections):
            sock, _ = await trio.to_thread.run_sync(listener.accept, abandon_on_cancel=True)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            nursery.start_soon(serve, sock)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept, nursery)
        await over.wait()
        used = memory([os.getpid()]).anonymous_mb
        nursery.cancel_scope.cancel()
    return used


def _converse(form: str, context: ssl.SSLContext) -> Converse:
    shared = SharedBios()

    async def by_transport(sock: socket.socket, response: bytes, count: Callable[[], None]) -> None:
        transport = TlsTransport(sock, Limits(), context, shared if form == SHARED else SharedBios())
        await transport.handshake()
        while await transport.receive():
            await transport.send(response)
            count()

    async def by_stream(sock: socket.socket, response: bytes, count: Callable[[], None]) -> None:
        stream = trio.SSLStream(
            trio.SocketStream(trio.socket.from_stdlib_socket(sock)), context, server_side=True
        )
        while await stream.receive_some():
            await stream.send_all(response)
            count()

    return by_stream if form == TRIO else by_transport


def _client(port: int, connections: int, trips: int, size: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    held = []
    for _ in range(connections):
        stream = context.wrap_socket(socket.create_connection(("127.0.0.1", port)))
        held.append(stream)
        for _ in range(trips):
            stream.sendall(REQUEST)
            left = size
            while left:
                left -= len(stream.recv(left))
    time.sleep(60)


if __name__ == "__main__":
    main(effort_of_command_line())
