"""Starting processes: none accepts clients before all are ready, and none outlives its parent."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import trio

from rewound.workers.roles import WORKER, Role
from rewound.workers.shared_page import SharedPage
from tests.gateway.processes import COMMAND, Server, flags
from tests.ports import reserve_port
from tests.workers.test_processes import children, connections, until

EARLY = 24


async def test_worker_that_waits_for_a_writer_process_ends_with_its_parent(tmp_path: Path) -> None:
    """The process holds the listening sockets: a survivor would keep the port busy."""
    SharedPage.create(tmp_path / "page")
    ours, theirs = socket.socketpair()
    listening = socket.create_server(("127.0.0.1", 0))
    with ours, listening:
        with theirs:
            role = Role(
                *(WORKER, 1, 2, str(tmp_path), theirs.fileno(), (None, None, (), ())),
                plain=(listening.fileno(),),
            )
            given = flags(tmp_path, 1)[len(COMMAND) + 1 :]
            worker = await trio.lowlevel.open_process(
                [sys.executable, "-m", "rewound.cli.child", role.encode(), *given],
                pass_fds=role.descriptors,
                stdin=subprocess.DEVNULL,
            )
        try:
            with trio.fail_after(60):
                ours.close()  # as the kernel does when the parent is killed
                assert await worker.wait() == 0
        finally:
            if worker.returncode is None:
                worker.kill()


async def test_replacement_asked_for_during_a_start_follows_it(tmp_path: Path) -> None:
    """SIGHUP during a start: the server starts, then each process is replaced. (It used to end with a traceback.)"""
    port = reserve_port()
    started = await trio.lowlevel.open_process(
        flags(tmp_path, port, "--workers", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    server = Server(started, port)
    try:
        await until(lambda: "writer" in children(server))
        first = children(server)["writer"]
        server.signal(signal.SIGHUP)
        await until(lambda: started.returncode is not None or children(server).get("writer", first) != first)
        assert started.returncode is None
        assert (await server.client.get("/livez")).status_code == 200
    finally:
        with trio.CancelScope(shield=True):
            await server.client.aclose()
            if started.returncode is None:
                started.kill()
            await started.wait()


async def test_clients_that_wait_for_a_start_are_spread_over_all_processes(tmp_path: Path) -> None:
    port = reserve_port()
    started = await trio.lowlevel.open_process(
        flags(tmp_path, port, "--workers", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    server, early = Server(started, port), list[trio.SocketStream]()
    try:
        with trio.fail_after(60):
            while len(early) < EARLY:
                try:
                    early.append(await trio.open_tcp_stream("127.0.0.1", port))
                except OSError:
                    await trio.sleep(0.01)
            for stream in early:
                await stream.send_all(b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n")
                assert (await stream.receive_some(1000)).startswith(b"HTTP/1.1 200")
        await until(lambda: sum(connections(server).values()) == EARLY)
        # How evenly depends on the machine's load: the process that is ahead waits a moment for the others.
        assert min(connections(server).values()) > 0
    finally:
        with trio.CancelScope(shield=True):
            for stream in early:
                await stream.aclose()
            await server.client.aclose()
            started.kill()
            await started.wait()
