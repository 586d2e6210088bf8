"""A watch delivers events in order: whole revisions, fragments of large ones, and why it ended."""

from __future__ import annotations

import pytest
import trio

from rewound.actors.etcd.api import (
    Compacted,
    DeleteRange,
    Event,
    KeyValue,
    Put,
    WatchResponse,
    prefix_end,
)
from rewound.cluster.etcd.client import EtcdClient


async def test_a_transaction_is_one_response(client: EtcdClient, prefix: bytes) -> None:
    a, b, c = (prefix + name for name in (b"a", b"b", b"c"))
    async with client.watch(prefix, prefix_end(prefix), 0, prev_kv=True) as responses:
        assert (await anext(responses)).events == ()
        first = (
            await client.txn((), [Put(b, b"1"), Put(a, b"2"), Put(prefix[:-1], b"not watched")])
        ).revision
        second = (await client.txn((), [DeleteRange(a), Put(b, b"3"), Put(c, b"4")])).revision
        old = {key: KeyValue(key, value, first, first, 1) for key, value in ((a, b"2"), (b, b"1"))}
        assert await anext(responses) == WatchResponse((Event(False, old[b]), Event(False, old[a])), first)
        assert await anext(responses) == WatchResponse(
            (
                Event(True, KeyValue(a, b"", 0, second, 0), old[a]),
                Event(False, KeyValue(b, b"3", first, second, 2), old[b]),
                Event(False, KeyValue(c, b"4", second, second, 1)),
            ),
            second,
        )


async def test_watch_from_an_old_revision_gets_earlier_events(client: EtcdClient, prefix: bytes) -> None:
    revisions = [(await client.txn((), [Put(prefix, b"%d" % number)])).revision for number in range(5)]
    async with client.watch(prefix, b"", revisions[2]) as responses:
        assert (await anext(responses)).revision >= revisions[-1]
        events = (await anext(responses)).events
        assert [event.now.mod_revision for event in events] == revisions[2:]
        assert {event.previous for event in events} == {None}


async def test_large_responses_come_in_parts(client: EtcdClient, prefix: bytes) -> None:
    """One event may be larger than one read; together they are larger than etcd's message limit."""
    value = bytes(range(256)) * 4000
    revisions = [(await client.txn((), [Put(prefix, value)])).revision for _ in range(4)]
    async with client.watch(prefix, b"", revisions[0]) as responses:
        found, partial = [], []
        async for response in responses:
            found += response.events
            partial.append(response.partial)
            if len(found) == 4:
                break
    assert [event.now.mod_revision for event in found] == revisions
    assert {event.now.value for event in found} == {value}
    assert True in partial
    assert not partial[-1]


async def test_many_events_at_once(client: EtcdClient, prefix: bytes) -> None:
    first = (await client.txn((), [Put(prefix + b"%d" % number, b"") for number in range(120)])).revision
    second = (await client.txn((), [Put(prefix + b"%d" % number, b"") for number in range(120)])).revision
    async with client.watch(prefix, prefix_end(prefix), first) as responses:
        await anext(responses)
        events = (await anext(responses)).events
    assert [event.now.mod_revision for event in events] == [first] * 120 + [second] * 120


async def test_watch_from_a_compacted_revision_fails(client: EtcdClient, prefix: bytes) -> None:
    old = (await client.txn((), [Put(prefix, b"1")])).revision
    new = (await client.txn((), [Put(prefix, b"2")])).revision
    await client.compact(new)
    async with client.watch(prefix, b"", old) as responses:
        assert (await anext(responses)).events == ()
        with pytest.raises(Compacted) as raised:
            await anext(responses)
    assert raised.value.revision == new
    assert (
        str(raised.value)
        == f"etcd has compacted the requested revision: the oldest that it still has is {new}"
    )


async def test_end_of_the_block_ends_the_watch(client: EtcdClient, prefix: bytes) -> None:
    async with client.watch(prefix, b"", 0) as responses:
        await anext(responses)
        with trio.move_on_after(0.01):
            await anext(responses)
        assert client.statistics().under_way == 1
    assert client.statistics().under_way == 0
