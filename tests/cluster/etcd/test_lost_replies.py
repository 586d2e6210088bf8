"""A transaction whose reply is lost has an unknown outcome and is sent once; reads are sent again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from rewound.actors.etcd.api import Compare, EtcdUnavailable, Get, OutcomeUnknown, Put
from tests.etcd_members import EtcdMembers, etcd_members
from tests.ports import reserve_port


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdMembers]:
    with etcd_members() as members:
        yield members


class Proxy:
    """A proxy before a member. It can drop what one side sends, and cut all connections."""

    def __init__(self, port: int) -> None:
        self._member = port
        self.url = ""
        self.connections = 0
        self.swallows = ""  # "requests", "replies"
        self.swallowed = trio.Event()
        self._scopes: list[trio.CancelScope] = []

    def swallow(self, what: str) -> None:
        self.swallows, self.swallowed = what, trio.Event()

    def cut(self) -> None:
        """All connections; later ones work."""
        self.swallows = ""
        for scope in self._scopes:
            scope.cancel()
        self._scopes.clear()

    async def serve(self, client: trio.SocketStream) -> None:
        self.connections += 1
        async with (
            client,
            await trio.open_tcp_stream("127.0.0.1", self._member) as member,
            trio.open_nursery() as nursery,
        ):
            self._scopes.append(nursery.cancel_scope)
            nursery.start_soon(self._copy, client, member, "requests", nursery.cancel_scope)
            nursery.start_soon(self._copy, member, client, "replies", nursery.cancel_scope)

    async def _copy(
        self, source: trio.SocketStream, sink: trio.SocketStream, what: str, scope: trio.CancelScope
    ) -> None:
        with suppress(trio.BrokenResourceError):
            while data := await source.receive_some():
                if self.swallows == what:
                    self.swallowed.set()
                else:
                    await sink.send_all(data)
        scope.cancel()


@asynccontextmanager
async def proxied(cluster: EtcdMembers) -> AsyncIterator[Proxy]:
    proxy = Proxy(cluster.members[0].port)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, proxy.serve, 0)
        proxy.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        yield proxy
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("swallowed", "applied"), [("requests", False), ("replies", True)])
async def test_lost_transaction_may_be_applied(cluster: EtcdMembers, swallowed: str, applied: bool) -> None:
    key = f"/lost/{swallowed}".encode()

    async def cut_when_lost() -> None:
        await proxy.swallowed.wait()
        with trio.fail_after(30):
            while applied and not (await direct.range(key)).kvs:
                await trio.sleep(0.01)
        proxy.cut()

    async with (
        proxied(cluster) as proxy,
        cluster.running_client() as direct,
        cluster.running_client(proxy.url, *cluster.urls) as client,
        trio.open_nursery() as nursery,
    ):
        await client.range(key)
        proxy.swallow(swallowed)
        nursery.start_soon(cut_when_lost)
        with pytest.raises(
            OutcomeUnknown, match="etcd may have applied the transaction, or may still do so: http"
        ):
            await client.txn([Compare(key, "version", 0)], [Put(key, b"")])
        assert client.statistics().member == cluster.urls[0], "the next call asks another member"
        found = (await client.range(key)).kvs
        assert [pair.version for pair in found] == [1] * applied


@pytest.mark.parametrize("swallowed", ["requests", "replies"])
async def test_lost_reads_are_repeated(cluster: EtcdMembers, swallowed: str) -> None:
    """Even with a single endpoint, and even for a transaction that only reads."""

    async def cut_when_lost() -> None:
        await proxy.swallowed.wait()
        proxy.cut()

    async with (
        proxied(cluster) as proxy,
        cluster.running_client(proxy.url) as client,
        trio.open_nursery() as nursery,
    ):
        await client.range(b"/lost")
        for call in (lambda: client.range(b"/lost"), lambda: client.txn([], [Get(b"/lost")])):
            proxy.swallow(swallowed)
            nursery.start_soon(cut_when_lost)
            assert (await call()).revision
        assert proxy.connections == 3


async def test_transaction_that_was_not_sent_is_repeated(cluster: EtcdMembers) -> None:
    """No connection: nothing can have been applied."""
    refused = f"http://127.0.0.1:{reserve_port()}"
    async with cluster.running_client(refused, *cluster.urls) as client:
        assert (await client.txn([], [Put(b"/sent", b"")])).succeeded
        assert client.statistics().failovers == 1


async def test_watch_that_breaks_off(cluster: EtcdMembers) -> None:
    async with proxied(cluster) as proxy, cluster.running_client(proxy.url) as client:
        async with client.watch(b"/broken", b"", 0) as responses:
            assert (await anext(responses)).events == ()
            proxy.cut()
            with pytest.raises(EtcdUnavailable, match=rf"^the watch of etcd has ended: {proxy.url}: "):
                await anext(responses)
        assert (await client.range(b"/broken")).revision
