"""Three members: calls and watches continue at another one when one is killed, paused or without a leader."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import pytest
import trio

from rewound.actors.etcd.api import EtcdUnavailable, OutcomeUnknown, Put, prefix_end
from rewound.cluster.etcd.client import EtcdClient
from tests.etcd_members import EtcdMembers, etcd_members


@pytest.fixture(scope="module")
def members() -> Iterator[EtcdMembers]:
    with etcd_members(3) as members:
        yield members


@pytest.fixture
def cluster(members: EtcdMembers) -> EtcdMembers:
    """All members run."""
    for member in members.members:
        member.resume()
    members.start()
    return members


async def put(client: EtcdClient, key: bytes) -> int:
    """Repeat it if the outcome is unknown."""
    while True:
        try:
            return (await client.txn((), [Put(key, b"")])).revision
        except OutcomeUnknown:
            continue


async def expect_unavailable(call: Callable[[], Awaitable[object]]) -> None:
    """It fails because there is no leader; on a busy machine the member may not say so in time at first."""
    with trio.fail_after(120):
        while True:
            with pytest.raises((EtcdUnavailable, OutcomeUnknown)) as failed:
                await call()
            if re.search(r"could do it within 4 s \(.*: etcdserver: no leader\)$", str(failed.value)):
                return


async def test_calls_and_watches_survive_a_killed_leader(cluster: EtcdMembers) -> None:
    leader = await cluster.leader()
    others = [url for url in cluster.urls if url != leader.url]
    async with cluster.running_client(leader.url, *others) as client:
        first = await put(client, b"/killed/a")
        async with client.watch(b"/killed/", prefix_end(b"/killed/"), first) as responses:
            await anext(responses)
            assert [event.now.key for event in (await anext(responses)).events] == [b"/killed/a"]
            leader.kill()
            with pytest.raises(EtcdUnavailable, match=f"^the watch of etcd has ended: {leader.url}: "):
                await anext(responses)
        second = await put(client, b"/killed/b")
        async with client.watch(b"/killed/", prefix_end(b"/killed/"), first + 1) as responses:
            await anext(responses)
            assert (await anext(responses)).events[-1].now.mod_revision == second
        assert (await client.range(b"/killed/", prefix_end(b"/killed/"))).count == 2
        statuses = {one.endpoint: one for one in await client.status()}
        assert statuses[leader.url].error == "connection refused"
        assert {statuses[url].leader for url in others} <= {statuses[url].member_id for url in others}
        assert len(await client.members()) == 3


async def test_calls_and_watches_survive_a_paused_member(cluster: EtcdMembers) -> None:
    """Its connections stay open: it only stops responding."""
    paused = cluster.members[0]
    async with cluster.running_client() as client:
        await put(client, b"/paused")
        async with client.watch(b"/paused", b"", 0) as responses:
            await anext(responses)
            paused.pause()
            with pytest.raises(OutcomeUnknown, match=f"{paused.url}: no reply in time"):
                await client.txn((), [Put(b"/paused", b"")])
            with pytest.raises(EtcdUnavailable, match="no reply in time"):
                await anext(responses)
        await put(client, b"/paused")
        assert client.statistics().member != paused.url


async def test_calls_fail_without_a_majority(cluster: EtcdMembers) -> None:
    left = cluster.members[2]
    async with (
        cluster.running_client(left.url) as client,
        cluster.running_client(left.url, seconds=4) as hasty,
    ):
        revision = await put(client, b"/alone")
        async with client.watch(b"/alone", b"", 0) as responses:
            await anext(responses)
            for member in cluster.members[:2]:
                member.kill()
            with pytest.raises(EtcdUnavailable):
                await anext(responses)
        # A transaction that the member takes while it still has a leader has an unknown outcome.
        with trio.fail_after(60):
            while (known := (await hasty.status())[0]).leader or known.error:
                await trio.sleep(0.05)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_unavailable, partial(hasty.txn, (), [Put(b"/alone", b"")]))
            nursery.start_soon(expect_unavailable, partial(hasty.range, b"/alone"))
            nursery.start_soon(expect_unavailable, lambda: hasty.watch(b"/alone", b"", 0).__aenter__())
        assert (await hasty.range(b"/alone", serializable=True)).kvs[0].mod_revision == revision
        (status,) = await hasty.status()
        assert (status.error, status.leader) == ("", 0)
