"""The follower reads whole revisions in order, once each, whatever etcd sends; times, restarts and silent watches."""

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from rewound.actors.etcd.api import WatchResponse
from rewound.actors.store.etcd.follower import CHECK_SECONDS, CopyOutdated
from rewound.actors.store.proposal import Proposal
from tests.actors.store.etcd.fake import FakeCluster
from tests.actors.store.etcd.nodes import RunningNode, running
from tests.actors.store.proposals import creation


def thing(name: str, previous: int | Proposal = 0, time: int = 1) -> Proposal:
    return creation(1, name, previous, time)


def twice(response: WatchResponse) -> list[WatchResponse]:
    return [response, response]


def one_by_one(response: WatchResponse) -> list[WatchResponse]:
    return [replace(response, events=(event,), partial=True) for event in response.events]


class LosesHeads:
    """A watch that splits revisions in its first responses."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, response: WatchResponse) -> list[WatchResponse]:
        if not response.events or self.times <= 0:
            return [response]
        self.times -= 1
        kept = tuple(event for event in response.events if not event.now.key.endswith(b"/head"))
        return [replace(response, events=kept)]


async def write_several(node: RunningNode, count: int = 5) -> None:
    for number in range(count):
        first = thing(f"x{number}")
        assert await node.write(first) is None
        assert await node.write(thing(f"x{number}", first)) is None


async def caught_up(node: RunningNode, head: int) -> None:
    with trio.fail_after(30):
        await node.feed.reached(head)


@pytest.mark.parametrize("deliver", [twice, one_by_one, LosesHeads(2)], ids=["twice", "parts", "lost"])
async def test_every_node_has_the_same_events_whatever_its_watch_delivers(tmp_path, autojump_clock, deliver):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        b.etcd.deliver = deliver
        await write_several(a)
        await caught_up(b, a.feed.head)
        assert b.events() == a.events() == b.published


async def test_times_never_decrease_and_are_the_same_on_all_nodes(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        for name, time in (("x", 100), ("y", 50), ("z", 120)):
            assert await a.write(thing(name, time=time)) is None
        await caught_up(b, a.feed.head)
        assert [one.time for one in b.events()] == [100, 100, 120]
        assert a.events() == b.events()


async def test_removal_keeps_its_author_and_last_body(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        first = thing("x")
        assert await a.write(first) is None
        removal = thing("x", first)
        removal.removed, removal.user, removal.verb = True, "gardener", "delete"
        assert await a.write(removal) is None
        await caught_up(b, a.feed.head)
        last = b.events()[-1]
        assert (last.removed, last.user, last.verb, last.previous) == (
            True,
            "gardener",
            "delete",
            a.events()[0].offset,
        )
        assert b'"name":"x"' in last.body


async def test_broken_watch_resumes_where_it_was(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        await write_several(a, 2)
        await caught_up(b, a.feed.head)
        b.etcd.break_watches.set()
        b.etcd.break_watches = trio.Event()
        await write_several(a, 0)
        first = thing("late")
        assert await a.write(first) is None
        await caught_up(b, a.feed.head)
        assert b.published == a.events()


async def test_silent_watch_is_noticed_and_begun_again(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        watches = b.etcd.watches
        b.etcd.stalled = True
        assert await a.write(thing("x")) is None
        await trio.sleep(3 * CHECK_SECONDS)
        assert b.etcd.watches > watches
        b.etcd.stalled = False
        await caught_up(b, a.feed.head)
        assert b.events() == a.events()


async def test_unknown_type_gets_its_id_before_its_first_event(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        a.journal.register_types(["widgets.example.com"])
        assert await a.write(creation(a.journal.type_id("widgets.example.com"), "w")) is None
        await caught_up(b, a.feed.head)
        assert b.journal.type_id("widgets.example.com") == b.events()[-1].type_id


async def test_restart_follows_only_what_came_since(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        async with running(cluster, tmp_path, "b") as b:
            await write_several(a, 2)
            await caught_up(b, a.feed.head)
        await write_several(a, 0)
        assert await a.write(thing("late")) is None
        async with running(cluster, tmp_path, "b") as b:
            await caught_up(b, a.feed.head)
            assert [one.name for one in b.published] == ["late"]
            assert b.events() == a.events()


async def test_follower_behind_compaction_says_that_its_copy_is_outdated(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        await write_several(a)
        with pytest.raises(BaseExceptionGroup) as raised:
            await _fall_behind(cluster, tmp_path, a)
        assert raised.group_contains(CopyOutdated, depth=None)


async def _fall_behind(cluster: FakeCluster, folder: Path, a: RunningNode) -> None:
    async with running(cluster, folder, "b") as b:
        b.etcd.is_cut = True
        await trio.sleep(2)
        assert await a.write(thing("late")) is None
        assert await a.write(thing("later")) is None
        cluster.compact(cluster.revision)
        b.etcd.is_cut = False
        await trio.sleep(10)
