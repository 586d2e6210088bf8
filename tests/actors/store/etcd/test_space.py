"""A node on etcd that has reached its quota starts, reads and says why it cannot write, until etcd accepts writes."""

import logging

import trio

from rewound.actors.errors import StorageRefused
from rewound.actors.etcd.api import EtcdFull
from rewound.actors.store.etcd.space import INTERVAL, REMINDER
from tests.actors.store.etcd.fake import FakeCluster, Lost
from tests.actors.store.etcd.nodes import KEYS, running
from tests.actors.store.proposals import creation


def thing(name: str, previous: int = 0):
    return creation(1, name, previous)


async def test_node_starts_and_reads_while_etcd_is_full_and_writes_when_it_is_not(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path) as node:
        assert await node.write(thing("x")) is None
        stored = await node.read()
    cluster.is_full = True
    async with running(cluster, tmp_path) as node:
        assert await node.read() == stored
        refused = await node.write(thing("y"))
        assert isinstance(refused, StorageRefused)
        assert "alarm disarm" in str(refused.message)
        assert node.node.committer.last_failure == str(EtcdFull())
        cluster.is_full = False
        await node.node.space.accepted()
        assert node.node.committer.last_failure == ""
        assert await node.write(thing("y")) is None
        assert len(await node.read()) == 2


async def test_node_without_a_copy_reads_the_state_of_a_full_etcd(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        assert await a.write(thing("x")) is None
        stored = await a.read()
    cluster.is_full = True
    async with running(cluster, tmp_path, "b") as b:
        assert await b.read() == stored


async def test_first_write_begins_an_epoch_if_the_start_could_not(tmp_path, autojump_clock):
    """Then no transaction of the process before it can still be applied."""
    cluster = FakeCluster()
    async with running(cluster, tmp_path) as node:
        assert await node.write(thing("x")) is None
        before = cluster.at(cluster.revision)[KEYS.of_node("a")].mod_revision
    cluster.is_full = True
    async with running(cluster, tmp_path) as node:
        cluster.is_full = False
        assert await node.write(thing("y")) is None  # before the node looks at the alarms
        state = cluster.at(cluster.revision)
        assert before < state[KEYS.of_node("a")].mod_revision < state[KEYS.head].mod_revision


async def test_lost_reply_is_resolved_for_a_new_node_without_an_epoch(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        assert await a.write(thing("x")) is None
    cluster.is_full = True
    async with running(cluster, tmp_path, "b") as b:
        assert KEYS.of_node("b") not in cluster.at(cluster.revision)
        cluster.is_full = False
        b.etcd.lose = [Lost(3.0)]
        assert await b.write(thing("y")) is None
        await trio.sleep(5)
        assert len(b.events()) == 2  # applied once


async def test_idle_node_notices_the_alarm_and_its_end(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path) as node:
        assert await node.write(thing("x")) is None
        assert node.node.space.problem == ""
        cluster.is_full = True
        await trio.sleep(2 * INTERVAL)
        assert node.node.space.problem == str(EtcdFull())
        cluster.is_full = False
        with trio.fail_after(2 * INTERVAL):
            await node.node.space.accepted()
        assert node.node.space.problem == ""


async def test_alarm_that_is_disarmed_without_space_is_no_recovery(tmp_path, autojump_clock):
    """Only a write that succeeds shows that etcd accepts writes."""
    cluster = FakeCluster()
    cluster.shows_alarm = False
    async with running(cluster, tmp_path) as node:
        cluster.is_full = True
        assert isinstance(await node.write(thing("x")), StorageRefused)
        await trio.sleep(3 * INTERVAL)
        assert node.node.space.problem == str(EtcdFull())


async def test_writes_that_wait_together_are_refused_by_one_transaction(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path) as node:
        cluster.is_full = True
        outcomes: list[Exception | None] = []
        before = node.etcd.transactions
        for number in range(20):
            node.node.committer.submit([thing(f"x{number}")], outcomes.append)
        with trio.fail_after(30):
            while len(outcomes) < 20:
                await trio.sleep(0.01)
        assert {type(one) for one in outcomes} == {StorageRefused}
        assert node.etcd.transactions - before <= 3


async def test_log_repeats_the_problem_at_long_intervals_only(tmp_path, autojump_clock, caplog):
    cluster = FakeCluster()
    async with running(cluster, tmp_path) as node:
        caplog.clear()
        caplog.set_level(logging.INFO, "rewound.actors.store.etcd")
        cluster.is_full = True
        for number in range(100):
            assert isinstance(await node.write(thing(f"x{number}")), StorageRefused)
        await trio.sleep(REMINDER * 2 + INTERVAL)
        said = [one for one in caplog.records if "serves reads, but no writes" in one.message]
        assert len(said) == 3
        cluster.is_full = False
        await node.node.space.accepted()
        assert [one.message for one in caplog.records].count("etcd accepts writes again") == 1


async def test_node_that_waits_to_lead_a_full_etcd_logs_it_once(tmp_path, autojump_clock, caplog):
    cluster = FakeCluster()
    async with running(cluster, tmp_path) as node:
        assert await node.write(thing("x")) is None
    cluster.is_full = True
    async with running(cluster, tmp_path) as node:
        await trio.sleep(60)
        said = [one for one in caplog.records if "election" in one.message]
        assert len(said) == 1
        assert not node.node.election.term()
        cluster.is_full = False
        with trio.fail_after(10):
            while not node.node.election.term():
                await trio.sleep(0.1)
