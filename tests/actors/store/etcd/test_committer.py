"""Writes through etcd: definite outcomes, lost comparisons, lost replies, shared transactions, claims and quotas."""

from uuid import uuid4

import msgpack
import pytest
import trio

from rewound.actors.errors import OutcomeUnclear, Unreachable
from rewound.actors.etcd.api import DeleteRange, Put
from rewound.actors.store.committer import UNCONDITIONAL, Condition, Overtaken
from rewound.actors.store.etcd.committer import NotLeading
from rewound.actors.store.etcd.freshness import Sent
from rewound.actors.store.etcd.records import LAYOUT, PER_REVISION, Cluster
from rewound.actors.store.proposal import Proposal
from tests.actors.store.etcd.fake import FakeCluster, Lost
from tests.actors.store.etcd.nodes import KEYS, RunningNode, running
from tests.actors.store.proposals import creation


def thing(name: str, previous: int | Proposal = 0, time: int = 1) -> Proposal:
    return creation(1, name, previous, time)


async def test_write_has_the_revision_of_etcd_and_is_published(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path) as node:
        proposal = thing("x")
        assert await node.write(proposal) is None
        assert proposal.event is not None
        version = KEYS.version(cluster.revision)
        assert proposal.event.offset == version == node.feed.head == node.journal.head
        assert [one.offset for one in node.published] == [version]


async def test_write_on_a_write_under_way_waits_for_its_revision(tmp_path, autojump_clock):
    async with running(FakeCluster(), tmp_path) as node:
        first = thing("x")
        second = thing("x", first)
        outcomes: list[Exception | None] = []
        node.node.committer.submit([first], outcomes.append)
        node.node.committer.submit([second], outcomes.append)
        assert await node.write() is None  # after both
        assert outcomes == [None, None]
        assert first.event is not None and second.event is not None
        assert second.event.previous == first.event.offset


async def test_overtaken_write_and_those_decided_on_it_are_decided_again(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        assert await a.write(thing("x")) is None
        late = thing("x")
        later = thing("x", late)
        outcomes: list[Exception | None] = []
        b.node.committer.submit([late], outcomes.append)
        b.node.committer.submit([later], outcomes.append)
        assert isinstance(await b.write(), Overtaken)
        assert [type(one) for one in outcomes] == [Overtaken, Overtaken]
        newest = cluster.at(cluster.revision)[KEYS.head].mod_revision
        assert b.feed.head == KEYS.version(newest)  # it has the change


@pytest.mark.parametrize("lost", [Lost(0.0), Lost(None), Lost(3.0)], ids=["applied", "never", "later"])
async def test_lost_reply_is_resolved_and_the_write_applied_once(tmp_path, autojump_clock, lost):
    async with running(FakeCluster(), tmp_path) as node:
        node.etcd.lose = [lost]
        proposal = thing("x")
        assert await node.write(proposal) is None
        await trio.sleep(5)
        assert [one.name for one in node.events()] == ["x"]
        assert proposal.event == node.events()[0]


async def test_unreachable_etcd_refuses_writes_as_unchanged(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path) as node:
        node.etcd.is_cut = True
        revision = cluster.revision
        assert isinstance(await node.write(thing("x")), Unreachable)
        assert cluster.revision == revision


async def test_lost_reply_without_quorum_afterwards_is_an_unknown_outcome(tmp_path, autojump_clock):
    async with running(FakeCluster(), tmp_path) as node:
        node.etcd.lose = [Lost(None, cuts=True)]
        assert isinstance(await node.write(thing("x")), OutcomeUnclear)


async def test_claimed_item_is_given_to_one_of_two_nodes(tmp_path, autojump_clock):
    cluster = FakeCluster()
    claims = {"things": lambda body: frozenset({"10.0.0.1"})}
    async with running(cluster, tmp_path, "a", claims) as a, running(cluster, tmp_path, "b", claims) as b:
        outcomes: list[Exception | None] = []
        mine, other = thing("x"), thing("y")
        a.node.committer.submit([mine], outcomes.append)
        b.node.committer.submit([other], outcomes.append)
        with trio.fail_after(10):
            while len(outcomes) < 2:
                await trio.sleep(0.1)
        assert sorted(type(one).__name__ for one in outcomes) == ["NoneType", "Overtaken"]
        stored, node = (mine, a) if mine.event is not None else (other, b)
        removal = thing(stored.name, stored)
        removal.removed = True
        assert await node.write(removal) is None
        assert KEYS.of_claim("10.0.0.1") not in cluster.at(cluster.revision)


async def test_counted_writes_of_two_nodes_see_each_other(tmp_path, autojump_clock):
    """If two nodes decide at the same time, one starts again; writes of one node are ordered."""
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        counted = Condition("ns", KEYS.version(cluster.revision))
        outcomes: dict[str, Exception | None] = {}
        for name in ("a1", "a2", "a3"):
            a.node.committer.submit(
                [thing(name)], lambda failure, name=name: outcomes.update({name: failure}), counted
            )
        b.node.committer.submit([thing("b1")], lambda failure: outcomes.update(b1=failure), counted)
        with trio.fail_after(10):
            while len(outcomes) < 4:
                await trio.sleep(0.1)
        from_a = [type(outcomes[name]).__name__ for name in ("a1", "a2", "a3")]
        first = "NoneType" if outcomes["b1"] is not None else "Overtaken"
        assert from_a[0] == first
        assert (outcomes["b1"] is None) == (from_a == ["Overtaken"] * 3)
        if first == "NoneType":
            assert from_a == ["NoneType"] * 3


async def test_write_within_a_quota_is_decided_again_after_another_nodes_write(tmp_path, autojump_clock):
    """Even if it follows a write of its own node that was decided on the other node's write."""
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        before = KEYS.version(cluster.revision)
        assert await b.write(thing("b"), condition=Condition("ns", before)) is None
        await a.feed.reached(b.feed.head)
        outcomes: dict[str, Exception | None] = {}
        for name, known in (("later", a.feed.head), ("early", before)):
            a.node.committer.submit(
                [thing(name)],
                lambda failure, name=name: outcomes.update({name: failure}),
                Condition("ns", known),
            )
        await a.write()
        assert outcomes["later"] is None
        assert isinstance(outcomes["early"], Overtaken)


async def test_controller_of_a_node_that_lost_its_lease_cannot_write(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        with trio.fail_after(10):
            while not a.node.election.term():
                await trio.sleep(0.1)
        leading = Condition(leading=True)
        assert await a.write(thing("x"), condition=leading) is None
        a.node.committer.term = lambda: cluster.at(cluster.revision)[KEYS.leader].create_revision - 1
        assert isinstance(await a.write(thing("y"), condition=leading), NotLeading)
        assert [one.name for one in a.events()] == ["x"]


async def write_together(
    node: RunningNode, *proposals: Proposal, condition: Condition = UNCONDITIONAL
) -> list[Exception | None]:
    """Submit each as a write of its own, before any of them is sent; returns their outcomes."""
    outcomes: dict[Proposal, Exception | None] = {}
    for one in proposals:
        node.node.committer.submit([one], lambda failure, one=one: outcomes.update({one: failure}), condition)
    with trio.fail_after(60):
        while len(outcomes) < len(proposals):
            await trio.sleep(0.1)
    return [outcomes[one] for one in proposals]


async def test_controllers_of_a_node_cannot_write_together_while_no_node_leads(tmp_path, autojump_clock):
    """A comparison with no term would hold: etcd has no key of a leader either."""
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        with trio.fail_after(10):
            while not a.node.election.term():
                await trio.sleep(0.1)
        send = a.etcd.txn

        async def without_election(compares, then, *otherwise):
            if any(one.key == KEYS.leader for one in then):
                await trio.sleep_forever()
            return await send(compares, then, *otherwise)

        a.etcd.txn = without_election
        await send([], [DeleteRange(KEYS.leader)])
        a.node.committer.term = lambda: 0
        a.node.committer.submit([thing("of a client")], lambda failure: None)  # for whose end the others wait
        names = [f"x{number}" for number in range(6)]
        found = await write_together(a, *map(thing, names), condition=Condition(leading=True))
        assert KEYS.leader not in cluster.at(cluster.revision)
        assert [type(one) for one in found] == [NotLeading] * len(names)
        assert [one.name for one in a.events()] == ["of a client"]


def revisions(node: RunningNode) -> dict[int, list[str]]:
    """The names of the objects that each revision changed, in order."""
    found: dict[int, list[str]] = {}
    for event in node.events():
        names = found.setdefault(KEYS.revision(event.offset), [])
        assert event.offset == KEYS.version(KEYS.revision(event.offset), len(names))
        names.append(event.name)
    return found


async def test_waiting_writes_share_a_transaction_and_each_has_its_version(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        before = a.etcd.transactions
        names = [f"x{number:02}" for number in range(2 * PER_REVISION)]
        assert await write_together(a, *map(thing, names)) == [None] * len(names)
        shared = list(revisions(a).values())
        assert sorted(name for some in shared for name in some) == names
        assert (
            len(shared) == a.etcd.transactions - before < 6
        )  # the first alone, the others in full transactions
        assert max(map(len, shared)) <= PER_REVISION
        await b.feed.reached(a.feed.head)
        assert b.events() == a.events() == b.published
        versions = await b.read()
        for event in a.events():
            change = thing(event.name, versions[1, "ns", event.name])
            assert await a.write(change) is None


async def test_creates_updates_and_removals_share_a_transaction(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        gone, changed = thing("gone"), thing("changed")
        assert await write_together(a, gone, changed) == [None, None]
        removal, update = thing("gone", gone), thing("changed", changed)
        removal.removed, removal.user = True, "gardener"
        a.node.committer._newest = Sent(2, 0.0, 0)  # the first write waits for others, too
        assert await write_together(a, update, removal, thing("new")) == [None] * 3
        assert ["changed", "gone", "new"] in map(sorted, revisions(a).values())
        assert [one.user for one in a.events() if one.removed] == ["gardener"]
        await b.feed.reached(a.feed.head)
        assert b.events() == a.events()
        assert sorted(name for _, _, name in await b.read()) == ["changed", "new"]


async def test_overtaken_write_of_a_shared_transaction_does_not_stop_the_others(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        assert await b.write(thing("taken")) is None
        names = ("first", "x", "taken", "y")
        outcomes = await write_together(a, *map(thing, names))
        assert [type(one).__name__ for one in outcomes] == ["NoneType", "NoneType", "Overtaken", "NoneType"]
        assert sorted(name for _, _, name in await a.read()) == ["first", "taken", "x", "y"]
        await b.feed.reached(a.feed.head)
        assert b.events() == a.events()


@pytest.mark.parametrize("lost", [Lost(0.0), Lost(None), Lost(3.0)], ids=["applied", "never", "later"])
async def test_lost_reply_of_a_shared_transaction_is_resolved_for_each_write(tmp_path, autojump_clock, lost):
    async with running(FakeCluster(), tmp_path) as node:
        node.node.committer._newest = Sent(2, 0.0, 0)  # the first write waits for others, too
        node.etcd.lose = [lost]
        names = ["x", "y", "z"]
        assert await write_together(node, *map(thing, names)) == [None] * 3
        await trio.sleep(5)
        assert not node.etcd.lose
        assert sorted(one.name for one in node.events()) == names


async def test_unreachable_etcd_refuses_each_write_of_a_shared_transaction(tmp_path, autojump_clock):
    async with running(FakeCluster(), tmp_path) as node:
        node.etcd.is_cut = True
        outcomes = await write_together(node, thing("x"), thing("y"), thing("z"))
        assert [type(one) for one in outcomes] == [Unreachable] * 3
        node.etcd.is_cut = False
        assert await write_together(node, thing("x"), thing("y"), thing("z")) == [None] * 3


async def test_cluster_of_an_earlier_release_keeps_one_change_a_revision(tmp_path, autojump_clock):
    cluster = FakeCluster()
    cluster.apply([], [Put(KEYS.cluster, Cluster(uuid4().bytes, "cluster").encode())], [])
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        names = ["first", "x", "y", "z"]
        assert await write_together(a, *map(thing, names)) == [None] * 4
        versions = [one.offset for one in a.events()]
        assert len(set(versions)) == 4 and versions[-1] == cluster.revision
        head = cluster.at(cluster.revision)[KEYS.head].value
        assert msgpack.unpackb(head)[0] == LAYOUT  # which nodes of that release read
        await b.feed.reached(a.feed.head)
        assert b.events() == a.events()
