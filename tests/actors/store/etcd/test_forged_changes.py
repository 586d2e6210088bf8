"""Another program writes revisions in the format of nodes, with `head`: invalid ones stop no node."""

import pytest
import trio

from rewound.actors.etcd.api import DeleteRange, Put
from rewound.actors.store.etcd.records import Change, Floor, Head, encode_heads
from tests.actors.object_store import memory_folder
from tests.actors.store.etcd.fake import FakeCluster
from tests.actors.store.etcd.nodes import KEYS, running
from tests.actors.store.etcd.test_foreign import check_same, foreign, key, names, settle, write
from tests.actors.store.proposals import BODY

SOUND = Change("create", 0, 1, "", "", "", b"id", b"\x90", BODY)
WRONG = {
    "no JSON": SOUND._replace(body=b"junk"),
    "no version": SOUND._replace(body=b"{}"),
    "later than itself": SOUND._replace(previous=2**63),
    "before the first": SOUND._replace(previous=-1),
    "after all dates": SOUND._replace(time=2**63),
    "before 1970": SOUND._replace(time=-1),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
async def test_change_that_no_journal_stores_goes_to_the_quarantine(autojump_clock, change):
    cluster = FakeCluster()
    with memory_folder() as folder:
        async with running(cluster, folder, "a") as a, running(cluster, folder, "b") as b:
            await write(a, "x")
            head = Head("things", "ns", "forged", b"id")
            foreign(cluster, Put(key("forged"), change.encode()), Put(KEYS.head, encode_heads((head,))))
            with trio.fail_after(60):
                await write(a, "y")
            await settle(a, b)
            assert set(a.node.foreign.quarantined) == {key("forged")}
            await check_same(a, b)
        async with running(cluster, folder, "a") as a:
            await write(a, "z")


REMOVALS = {
    "junk": b"junk",
    "of another revision": SOUND._replace(verb="delete", write_id=b"other").encode(),
    "without a version": SOUND._replace(verb="delete", body=b"{}").encode(),
}


@pytest.mark.parametrize("removal", REMOVALS.values(), ids=REMOVALS)
async def test_forged_delete_that_cannot_be_stored_is_a_delete_without_a_user(autojump_clock, removal):
    cluster = FakeCluster()
    with memory_folder() as folder:
        async with running(cluster, folder, "a") as a:
            await write(a, "x")
            head = Head("things", "ns", "x", b"id", removal)
            foreign(cluster, DeleteRange(key("x")), Put(KEYS.head, encode_heads((head,))))
            with trio.fail_after(60):
                await write(a, "y")
            await settle(a)
            assert names(await a.read()) == ["y"]


NAMES = {
    "long namespace": ("things", "n" * 600, "f"),
    "long type": ("t" * 600, "ns", "f"),
    "NUL": ("things", "ns", "f\0g"),
    "slash": ("things", "a/b", "f"),
    "no type": ("", "ns", "f"),
}


@pytest.mark.parametrize("place", NAMES.values(), ids=NAMES)
async def test_names_that_no_journal_stores_go_to_the_quarantine(autojump_clock, place):
    cluster = FakeCluster()
    with memory_folder() as folder:
        async with running(cluster, folder, "a") as a:
            head = Head(*place, b"id")
            foreign(
                cluster, Put(KEYS.of_object(*place), SOUND.encode()), Put(KEYS.head, encode_heads((head,)))
            )
            with trio.fail_after(60):
                await write(a, "y")
            await settle(a)
            assert names(await a.read()) == ["y"]
            assert set(a.node.foreign.quarantined) == {KEYS.of_object(*place)}


async def test_heads_of_a_later_release_without_objects_are_passed_over(autojump_clock):
    cluster = FakeCluster()
    with memory_folder() as folder:
        async with running(cluster, folder, "a") as a:
            await write(a, "x")
            for _ in range(3):
                foreign(cluster, Put(KEYS.head, b"\x91\x03"))  # msgpack [3]
            with trio.fail_after(60):
                await write(a, "y")


@pytest.mark.parametrize("floor_time", [1, 2**62], ids=["record", "floor"])
async def test_copy_of_a_state_with_times_after_all_dates(autojump_clock, floor_time):
    cluster = FakeCluster()
    with memory_folder() as folder:
        async with running(cluster, folder, "a") as a:
            await write(a, "x")
        foreign(cluster, Put(key("new"), SOUND._replace(time=2**63).encode()))
        async with running(cluster, folder, "a") as a:
            await write(a, "y")
            foreign(cluster, Put(KEYS.floor, Floor(a.feed.head, floor_time).encode()))
            async with running(cluster, folder, "b") as b:
                await settle(a, b)
                assert await a.read() == await b.read()
        async with running(cluster, folder, "b") as b:
            await write(b, "z")
