"""A recorder of a server with TLS: its watches share a connection, through kills of the server and lost connections.

The recorder reaches the server through a relay that counts the connections, and can cut them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import orjson
import pytest
import trio

from rewound.client.http2 import DISABLE
from rewound.recording.record.gaps import gaps_in
from tests.gateway.processes import Server, process
from tests.ports import reserve_port
from tests.recording.record.recording import events_of, opened

NAMESPACED = {
    "configmaps": "/api/v1/namespaces/default/configmaps",
    "serviceaccounts": "/api/v1/namespaces/default/serviceaccounts",
    "leases.coordination.cluster.io": "/apis/coordination.cluster.io/v1/namespaces/default/leases",
    "roles.rbac.authorization.cluster.io": "/apis/rbac.authorization.cluster.io/v1/namespaces/default/roles",
}


class Relay:
    """Passes connections on to a server, and counts those that have reached it."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.opened = 0
        self.open: set[trio.CancelScope] = set()
        self._port = port

    async def serve(self, client: trio.SocketStream) -> None:
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self._port)
        except OSError:
            return
        self.opened += 1
        with trio.CancelScope() as scope:
            self.open.add(scope)
            try:
                async with server, trio.open_nursery() as nursery:
                    for one, other in ((client, server), (server, client)):
                        nursery.start_soon(self._pass, one, other, nursery.cancel_scope)
            finally:
                self.open.discard(scope)

    async def _pass(self, one: trio.SocketStream, other: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            async for data in one:
                await other.send_all(data)
        except trio.BrokenResourceError:
            pass
        scope.cancel()

    def cut(self) -> None:
        for scope in list(self.open):
            scope.cancel()


@asynccontextmanager
async def relay_to(port: int) -> AsyncIterator[Relay]:
    relay = Relay(port)
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, relay.serve, 0, host="127.0.0.1"))
        relay.port = listener.socket.getsockname()[1]
        yield relay
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def recorder(kubeconfig: Path, relay: Relay, out: Path, **environment: str) -> AsyncIterator[None]:
    """`rewound record` of everything; at the end it has ended in order."""
    flags = ["--kubeconfig", str(kubeconfig), "--server", f"https://127.0.0.1:{relay.port}", str(out)]
    started = await trio.lowlevel.open_process(
        [sys.executable, "-m", "rewound", "record", *flags],
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    try:
        yield
        started.send_signal(signal.SIGTERM)
        with trio.fail_after(60):
            assert await started.wait() == 0
    finally:
        with trio.CancelScope(shield=True):
            if started.returncode is None:
                started.kill()
            await started.wait()


async def write(server: Server, name: str) -> int:
    """Create an object of each kind, change and remove it; returns the last version."""
    for path in NAMESPACED.values():
        created = await server.client.post(path, json={"metadata": {"name": name}})
        assert created.status_code == 201
        changed = {**created.json(), "metadata": {**created.json()["metadata"], "labels": {"a": "b"}}}
        assert (await server.client.put(f"{path}/{name}", json=changed)).status_code == 200
        assert (await server.client.delete(f"{path}/{name}")).status_code == 200
    last = await server.client.post(NAMESPACED["configmaps"], json={"metadata": {"name": f"{name}-last"}})
    return int(last.json()["metadata"]["resourceVersion"])


async def recorded(out: Path, version: int) -> None:
    """Wait until everything up to a version is in the journal."""
    with trio.fail_after(120):
        while position(out) < version:
            await trio.sleep(0.05)


def position(out: Path) -> int:
    try:
        return int(orjson.loads((out / "recording.json").read_bytes())["kinds"].get("configmaps", 0))
    except FileNotFoundError:
        return 0


async def written(folder: Path) -> list[tuple[str, int, str]]:
    """Type, version and name of all events in `default`, as the server or the recorder has them."""
    async with opened(folder) as journal:
        return [
            (name, one.offset, one.name)
            for name in NAMESPACED
            for one in events_of(journal, name)
            if one.namespace == "default"
        ]


@pytest.mark.parametrize("transport", ["native", pytest.param("asgi", marks=pytest.mark.slow)])
async def test_few_connections_through_kills_and_cuts(tmp_path: Path, transport: str) -> None:
    """Beside our HTTP/2, and beside Hypercorn's."""
    out, port = tmp_path / "out", reserve_port()
    serving = ("--secure-port", str(port), "--transport", transport)
    kubeconfig = tmp_path / "data" / "admin.kubeconfig"
    async with AsyncExitStack() as servers, relay_to(port) as relay:
        server = await servers.enter_async_context(process(tmp_path, *serving))
        async with recorder(kubeconfig, relay, out):
            await recorded(out, await write(server, "a"))
            assert len(orjson.loads((out / "recording.json").read_bytes())["kinds"]) > 40
            assert relay.opened == 2
            relay.cut()
            await recorded(out, await write(server, "b"))
            assert relay.opened == 3  # nobody lists again
            server.signal(signal.SIGKILL)
            await server.ended()
            again = await servers.enter_async_context(process(tmp_path, *serving))
            await recorded(out, await write(again, "c"))
            assert relay.opened == 4
    ours, theirs = await written(out), await written(tmp_path / "data")
    first = min(version for _, version, _ in ours)
    assert len(ours) > 2 * 3 * len(NAMESPACED)  # what existed first is listed, without its past
    assert ours == [one for one in theirs if one[1] in {version for _, version, _ in ours}]
    assert [one for one in theirs if one[1] > first and one[2][0] in "bc"] == [
        one for one in ours if one[2][0] in "bc"
    ]
    assert not [one for one in gaps_in(out) if one.missing]


async def test_one_connection_for_each_watch_without_http2(tmp_path: Path) -> None:
    out, port = tmp_path / "out", reserve_port()
    kubeconfig = tmp_path / "data" / "admin.kubeconfig"
    async with (
        process(tmp_path, "--secure-port", str(port)) as server,
        relay_to(port) as relay,
        recorder(kubeconfig, relay, out, **{DISABLE: "1"}),
    ):
        await recorded(out, await write(server, "a"))
        assert len(relay.open) > 40
