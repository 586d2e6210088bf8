"""Transactions, ranges, leases and compaction, with one member."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rewound.actors.etcd.api import (
    FROM_KEY,
    Compacted,
    Compare,
    DeleteRange,
    DeleteResult,
    EtcdRefused,
    EtcdUnavailable,
    Get,
    KeyValue,
    LeaseGone,
    Put,
    PutResult,
    RangeResult,
    TxnResult,
    prefix_end,
)
from rewound.cluster.etcd.client import EtcdClient
from tests.cases import cases, checking
from tests.etcd_members import EtcdMembers, running
from tests.ports import reserve_port


async def put(client: EtcdClient, key: bytes, value: bytes) -> int:
    return (await client.txn((), (Put(key, value),))).revision


@cases(
    "prefix, end",
    [
        (b"a", b"b"),
        (b"/x/", b"/x0"),
        (b"a\xff", b"b"),
        (b"a\xff\xff", b"b"),
        (b"\xff", FROM_KEY),
        (b"", FROM_KEY),
    ],
)
def test_prefix_end_is_the_key_after_a_prefix(prefix: bytes, end: bytes) -> None:
    assert prefix_end(prefix) == end


async def test_transaction_that_succeeds_and_one_that_does_not(client: EtcdClient, prefix: bytes) -> None:
    key = prefix + b"a"
    absent = Compare(key, "mod_revision", 0)
    first = await client.txn([absent], [Put(key, b"one"), Get(key)], [Get(key)])
    pair = KeyValue(key, b"one", first.revision, first.revision, 1)
    found = RangeResult((pair,), first.revision, False, 1)
    assert first == TxnResult(True, first.revision, (PutResult(first.revision), found))
    assert await client.txn([absent], [Put(key, b"two")], [Get(key)]) == TxnResult(
        False, first.revision, (found,)
    )


async def test_transaction_compares_before_it_writes(client: EtcdClient, prefix: bytes) -> None:
    key = prefix + b"\x00\xff key"
    created = await put(client, key, b"one")
    changed = await put(client, key, b"\x00\xff two")
    held: list[tuple[Any, Any, Any]] = [
        ("create_revision", "=", created),
        ("mod_revision", "=", changed),
        ("mod_revision", "!=", created),
        ("mod_revision", "<", changed + 1),
        ("mod_revision", ">", created),
        ("version", "=", 2),
        ("value", "=", b"\x00\xff two"),
        ("value", "!=", b"one"),
    ]
    failed: list[tuple[Any, Any, Any]] = [
        ("create_revision", "=", changed),
        ("mod_revision", "=", created),
        ("version", "<", 2),
        ("value", "=", b"one"),
    ]
    with checking() as case:
        for expected, compares in ((True, held), (False, failed)):
            for target, operator, given in compares:
                with case((target, operator, given)):
                    result = await client.txn([Compare(key, target, given, operator)], [Get(key)])
                    assert result.succeeded is expected
                    assert len(result.responses) == expected


async def test_transaction_deletes_a_range(client: EtcdClient, prefix: bytes) -> None:
    await client.txn((), [Put(prefix + name, b"") for name in (b"a", b"b", b"c")])
    result = await client.txn((), [DeleteRange(prefix + b"a", prefix + b"c"), DeleteRange(prefix + b"z")])
    assert result.responses == (DeleteResult(result.revision, 2), DeleteResult(result.revision, 0))
    left = await client.range(prefix, prefix_end(prefix))
    assert [(pair.key, pair.value) for pair in left.kvs] == [(prefix + b"c", b"")]


async def test_pages_of_a_range_at_one_revision(client: EtcdClient, prefix: bytes) -> None:
    keys = [prefix + b"%03d" % number for number in range(250)]
    for start in range(0, 250, 100):
        await client.txn((), [Put(key, b"old") for key in keys[start : start + 100]])
    first = await client.range(prefix, prefix_end(prefix), limit=110)
    changed = await put(client, keys[-1], b"new")
    await client.txn((), [DeleteRange(prefix, prefix_end(prefix))])
    assert (first.more, first.count) == (True, 250)
    found = list(first.kvs)
    while first.more:
        start = found[-1].key + b"\0"
        first = await client.range(start, prefix_end(prefix), revision=changed - 1, limit=110)
        found += first.kvs
    assert [pair.key for pair in found] == keys
    assert {pair.value for pair in found} == {b"old"}
    assert first.revision > changed


async def test_ranges_can_omit_values(client: EtcdClient, prefix: bytes) -> None:
    await client.txn((), [Put(prefix + b"a", b"1"), Put(prefix + b"b", b"2")])
    end = prefix_end(prefix)
    keys = await client.range(prefix, end, keys_only=True)
    assert [(pair.key, pair.value, pair.version) for pair in keys.kvs] == [
        (prefix + b"a", b"", 1),
        (prefix + b"b", b"", 1),
    ]
    counted = await client.range(prefix, end, count_only=True, serializable=True)
    assert (counted.kvs, counted.count) == ((), 2)
    assert await client.range(prefix + b"none") == RangeResult((), counted.revision, False, 0)


async def test_large_values_are_stored_and_read(client: EtcdClient, prefix: bytes) -> None:
    large = bytes(range(256)) * 5000
    await put(client, prefix, large)
    (pair,) = (await client.range(prefix)).kvs
    assert pair.value == large
    for larger in (large + large[:320_000], large * 2):
        with pytest.raises(EtcdRefused, match=r"^etcd refused: .* large.*; make the object smaller"):
            await put(client, prefix, larger)
    assert (await client.range(prefix)).kvs == (pair,)


async def test_many_transactions_at_once_share_connections(client: EtcdClient, prefix: bytes) -> None:
    revisions = set()

    async def one(number: int) -> None:
        revisions.add(await put(client, prefix + b"%d" % number, b"x" * 1000))
        assert client.statistics().under_way <= 128

    async with trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(one, number)
    assert len(revisions) == 200
    assert client.statistics().calls == 200
    assert client.statistics().under_way == 0


async def test_keys_of_a_lease_end_with_it(client: EtcdClient, prefix: bytes) -> None:
    lease = await client.grant(60)
    await client.txn((), [Put(prefix, b"", lease)])
    assert (await client.range(prefix)).kvs[0].lease == lease
    assert await client.keep_alive(lease) == 60
    await client.revoke(lease)
    assert (await client.range(prefix)).kvs == ()
    with pytest.raises(LeaseGone, match=f"the lease {lease:x} of etcd has expired or was revoked"):
        await client.keep_alive(lease)
    with pytest.raises(LeaseGone) as raised:
        await client.txn((), [Put(prefix, b"", lease)])
    assert raised.value.lease == lease
    await client.revoke(lease)


async def test_lease_expires_by_itself(client: EtcdClient, prefix: bytes) -> None:
    lease = await client.grant(1)
    put = await client.txn((), [Put(prefix, b"", lease)])
    async with client.watch(prefix, b"", put.revision + 1) as responses:
        assert (await anext(responses)).events == ()
        (event,) = (await anext(responses)).events
    assert event.is_delete
    assert event.now == KeyValue(prefix, b"", 0, put.revision + 1, 0)
    with pytest.raises(LeaseGone):
        await client.keep_alive(lease)


async def test_compacted_revisions_cannot_be_read(client: EtcdClient, prefix: bytes) -> None:
    old = await put(client, prefix, b"1")
    new = await put(client, prefix, b"2")
    await client.compact(new)
    with pytest.raises(Compacted):
        await client.range(prefix, revision=old)
    with pytest.raises(Compacted):
        await client.txn((), [Get(prefix, revision=old)])
    with pytest.raises(Compacted):
        await client.compact(old)
    with pytest.raises(EtcdRefused, match="future revision"):
        await client.compact(new + 1000)
    assert (await client.range(prefix, revision=new)).kvs[0].value == b"2"


async def test_status_and_members_describe_the_cluster(client: EtcdClient, cluster: EtcdMembers) -> None:
    (status,) = await client.status()
    (member,) = await client.members()
    assert (status.endpoint, status.error, status.alarms) == (cluster.urls[0], "", ())
    assert status.leader == status.member_id == member.id
    assert status.revision == (await client.range(b"x")).revision
    assert status.db_size >= status.db_size_in_use > 0
    assert (member.name, member.client_urls) == ("m0", cluster.urls)


async def test_calls_wait_for_the_task_of_the_client_and_end_with_it(cluster: EtcdMembers) -> None:
    client, answered = EtcdClient(cluster.urls), trio.Event()

    async def call() -> None:
        await client.range(b"x")
        answered.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        assert not answered.is_set()
        async with running(client), client.watch(b"x", b"", 0) as responses:
            await anext(responses)
            await answered.wait()
    with pytest.raises(EtcdUnavailable, match="the client of etcd has ended"):
        await client.txn((), [Put(b"x", b"")])
    with pytest.raises(EtcdUnavailable):
        await anext(responses)


async def test_no_member_at_the_endpoints(autojump_clock: trio.testing.MockClock) -> None:
    urls = [f"http://127.0.0.1:{reserve_port()}" for _ in range(2)]
    async with running(EtcdClient(urls, seconds=0.3)) as client:
        await check_unreachable(client, urls)


async def check_unreachable(client: EtcdClient, urls: list[str]) -> None:
    with pytest.raises(EtcdUnavailable) as raised:
        await client.txn((), [Put(b"a", b"")])
    assert str(raised.value) == (
        f"no member of etcd could do it within 0.3 s ({urls[0]}: connection refused; {urls[1]}: connection refused)"
    )
    with pytest.raises(EtcdUnavailable):
        async with client.watch(b"a", b"", 0):
            pass
    assert [(one.endpoint, one.error) for one in await client.status()] == [
        (url, "connection refused") for url in urls
    ]
