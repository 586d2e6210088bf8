"""A transaction whose reply is lost has an unknown outcome and is sent once; what changes nothing is sent again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio

from actors.etcd.api import Compare, EtcdUnavailable, Get, OutcomeUnknown, Put
from tests.cases import checking
from tests.etcd_members import EtcdMembers, etcd_members
from tests.ports import reserve_port


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdMembers]:
    with etcd_members() as members:
        yield members


class Cutter:
    """A proxy before a member. Once armed, it cuts the connection of the next request."""

    def __init__(self, port: int) -> None:
        self._member = port
        # "request": the member does not get it; "reply": the client does not get what the member replied.
        self.cut = ""
        self.requests = 0
        self.url = ""

    async def serve(self, client: trio.SocketStream) -> None:
        async with client, await trio.open_tcp_stream("127.0.0.1", self._member) as member:
            while request := await client.receive_some():  # small ones arrive whole
                self.requests += 1
                cut, self.cut = self.cut, ""
                if cut == "request":
                    return
                await member.send_all(request)
                reply = await member.receive_some()
                if cut == "reply":
                    return
                if cut == "half of the reply":
                    await client.send_all(reply[: len(reply) // 2])
                    return
                await client.send_all(reply)
                if cut:
                    return


@asynccontextmanager
async def cutter(cluster: EtcdMembers) -> AsyncIterator[Cutter]:
    proxy = Cutter(cluster.members[0].port)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, proxy.serve, 0)
        proxy.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        yield proxy
        nursery.cancel_scope.cancel()


async def test_lost_transaction_may_be_applied(cluster: EtcdMembers) -> None:
    with checking() as case:
        for cut, applied in (("request", False), ("reply", True), ("half of the reply", True)):
            with case(cut):
                await lose_transaction(cluster, cut, applied)


async def lose_transaction(cluster: EtcdMembers, cut: str, applied: bool) -> None:
    key = f"/lost/{cut}".encode()
    async with cutter(cluster) as proxy, cluster.running_client(proxy.url, *cluster.urls) as client:
        await client.range(key)
        proxy.cut = cut
        with pytest.raises(
            OutcomeUnknown, match="etcd may have applied the transaction, or may still do so: http"
        ):
            await client.txn([Compare(key, "version", 0)], [Put(key, b"")])
        assert proxy.requests == 2
        assert client.statistics().member == cluster.urls[0], "the next call asks another member"
        assert bool((await client.range(key)).kvs) is applied


async def test_lost_reads_are_repeated(cluster: EtcdMembers) -> None:
    """Also with a single endpoint, and also a transaction that only reads."""
    async with cutter(cluster) as proxy, cluster.running_client(proxy.url) as client:
        for cut in ("request", "reply", "half of the reply"):
            proxy.cut = cut
            await client.range(b"/lost")
            proxy.cut = cut
            await client.txn([], [Get(b"/lost")], [Get(b"/other")])
        assert proxy.requests == 12


async def test_transaction_that_was_not_sent_is_repeated(cluster: EtcdMembers) -> None:
    """No connection: nothing can have been applied."""
    refused = f"http://127.0.0.1:{reserve_port()}"
    async with cluster.running_client(refused, *cluster.urls) as client:
        assert (await client.txn([], [Put(b"/sent", b"")])).succeeded
        assert client.statistics().failovers == 1


async def test_watch_that_breaks_off(cluster: EtcdMembers) -> None:
    async with cutter(cluster) as proxy, cluster.running_client(proxy.url) as client:
        proxy.cut = "after the reply"
        async with client.watch(b"/broken", b"", 0) as responses:
            assert (await anext(responses)).events == ()
            with pytest.raises(
                EtcdUnavailable, match=r"^the watch of etcd has ended: http://127.0.0.1:\d+: the connec"
            ):
                await anext(responses)
