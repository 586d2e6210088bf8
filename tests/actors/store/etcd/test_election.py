"""The election: one node leads, another takes over within five seconds, and a node that is cut off stops leading
first.
"""

import trio

from rewound.actors.store.etcd.election import GIVE_UP_SECONDS, TTL
from rewound.actors.store.etcd.etcd_node import Task
from tests.actors.store.etcd.fake import FakeCluster
from tests.actors.store.etcd.nodes import RunningNode, running


async def leader(*nodes: RunningNode) -> RunningNode:
    with trio.fail_after(30):
        while True:
            leading = [one for one in nodes if one.node.election.term()]
            if leading:
                [only] = leading
                return only
            await trio.sleep(0.05)


async def test_one_node_leads_and_runs_the_tasks(tmp_path, autojump_clock):
    cluster = FakeCluster()
    ran: list[str] = []

    def tasks(name: str) -> list[Task]:
        async def task() -> None:
            ran.append(name)
            await trio.sleep_forever()

        return [("task", task)]

    async with (
        running(cluster, tmp_path, "a", leading=tasks("a")) as a,
        running(cluster, tmp_path, "b", leading=tasks("b")) as b,
    ):
        first = await leader(a, b)
        await trio.sleep(20)
        assert await leader(a, b) is first
        assert ran == [first.node.member.node]


async def test_other_node_takes_over_within_five_seconds_and_not_before_the_first_has_stopped(
    tmp_path, autojump_clock
):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        first = await leader(a, b)
        other = b if first is a else a
        first.etcd.is_cut = True
        cut = trio.current_time()
        with trio.fail_after(30):
            while not other.node.election.term():
                await trio.sleep(0.01)
        assert trio.current_time() - cut < 5
        assert not first.node.election.term()


async def test_node_that_stops_gives_the_lead_to_another_at_once(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "b") as b:
        async with running(cluster, tmp_path, "a") as a:
            b.etcd.is_cut = True
            await trio.sleep(10)
            assert await leader(a, b) is a
            b.etcd.is_cut = False
            await trio.sleep(2)
        stopped = trio.current_time()
        assert await leader(b) is b
        assert trio.current_time() - stopped < 1.5


def test_leader_gives_up_before_its_lease_expires() -> None:
    assert GIVE_UP_SECONDS < TTL
