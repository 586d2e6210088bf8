"""The journal of a node when it starts: new, restarted, too far behind, or of another cluster."""

from uuid import uuid4

import pytest
import trio

from rewound.actors.etcd.api import DeleteRange, EtcdUnavailable, OutcomeUnknown, Put
from rewound.actors.store.etcd.compaction import Compaction
from rewound.actors.store.etcd.copy import CannotJoin, UnsyncedMarker, prepare
from rewound.actors.store.etcd.freshness import Sent
from rewound.actors.store.etcd.records import Cluster, Floor, is_batched
from rewound.actors.store.proposal import Proposal
from rewound.journal.log import Journal
from tests.actors.store.etcd.fake import FakeCluster, FakeEtcd
from tests.actors.store.etcd.nodes import KEYS, RunningNode, running
from tests.actors.store.proposals import creation


class Clock:
    def __init__(self, now: int) -> None:
        self._now = now

    def now(self) -> int:
        return self._now


def thing(name: str, previous: int | Proposal = 0, time: int = 1) -> Proposal:
    return creation(1, name, previous, time)


async def compact(node: RunningNode, now: int, window: int = 0) -> int:
    with trio.fail_after(30):
        while not node.node.election.term():
            await trio.sleep(0.1)
    compaction = Compaction(node.etcd, KEYS, node.journal, Clock(now), node.node.election, window)
    return await compaction.run_once()


async def write_history(node: RunningNode) -> None:
    """Objects that stay, change and are deleted; the deleted one has the latest clock."""
    first, gone = thing("x", time=10), thing("gone", time=500)
    for proposal in (first, gone):
        assert await node.write(proposal) is None
    removal = thing("gone", gone, time=20)
    removal.removed = True
    for proposal in (removal, thing("x", first, time=30), thing("y", time=40)):
        assert await node.write(proposal) is None


async def test_new_node_starts_from_the_floor_with_the_same_times(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        await write_history(a)
        floor = await compact(a, now=1000)
        assert floor == a.journal.head == KEYS.version(cluster.compacted)
        assert await a.write(thing("z", time=60)) is None
        async with running(cluster, tmp_path, "b") as b:
            await b.feed.reached(a.feed.head)
            assert [one.name for one in b.events()] == ["x", "y", "z"]
            ours = {one.offset: one for one in a.events()}
            assert all(one.time == 500 for one in b.events()[1:])  # the clock of the deleted object
            assert b.events()[1:] == [ours[one.offset] for one in b.events()[1:]]
            with a.journal.read() as one, b.journal.read() as other:
                assert list(one.rows(1, None)) == list(other.rows(1, None))
                assert other.floor == floor


async def test_floor_is_never_the_version_of_a_removal(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        first = thing("x", time=10)
        assert await a.write(first) is None
        removal = thing("x", first, time=20)
        removal.removed = True
        assert await a.write(removal) is None
        assert first.event is not None
        assert await compact(a, now=1000) == first.event.offset


async def test_node_that_is_too_far_behind_copies_the_state_again(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        async with running(cluster, tmp_path, "b") as b:
            await write_history(a)
            await b.feed.reached(a.feed.head)
        assert await a.write(thing("late", time=600)) is None
        assert await compact(a, now=1000) == a.journal.head
        async with running(cluster, tmp_path, "b") as b:
            assert [one.name for one in b.events()] == ["x", "y", "late"]


async def test_etcd_compacted_by_another_program_gets_a_new_floor(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        await write_history(a)
    cluster.compact(cluster.revision)
    async with running(cluster, tmp_path, "b") as b:
        assert [one.name for one in b.events()] == ["y", "x"]  # x was written again, unchanged
        floor = Floor.decode(cluster.at(cluster.revision)[KEYS.floor].value)
        assert floor.version == b.journal.head


async def test_prefix_in_an_etcd_that_others_have_used_and_compacted(tmp_path, autojump_clock):
    cluster = FakeCluster()
    for _ in range(5):
        await FakeEtcd(cluster).txn((), _puts())
    cluster.compact(cluster.revision)
    async with running(cluster, tmp_path, "a") as a:
        assert await a.write(thing("x")) is None
        assert [one.name for one in a.events()] == ["x"]


def _puts():
    return [Put(b"other", b"")]


async def test_folder_of_another_cluster_is_refused(tmp_path, autojump_clock):
    journal = Journal.open(tmp_path / "a")
    journal.close()
    with pytest.raises(CannotJoin, match="another cluster than the one in etcd; give another folder"):
        await prepare(FakeEtcd(FakeCluster()), KEYS, tmp_path / "a", "cluster")


async def test_other_dialect_is_refused(tmp_path, autojump_clock):
    cluster = FakeCluster()
    await prepare(FakeEtcd(cluster), KEYS, tmp_path / "a", "cluster")
    with pytest.raises(CannotJoin, match="--dialect: the cluster in etcd has the dialect cluster"):
        await prepare(FakeEtcd(cluster), KEYS, tmp_path / "b", "kubernetes")


async def test_copy_of_an_earlier_boot_is_replaced(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        await write_history(a)
    unsynced = UnsyncedMarker(tmp_path / "unsynced")
    unsynced.begin()
    assert not unsynced.is_of_earlier_boot()
    await prepare(FakeEtcd(cluster), KEYS, tmp_path / "a", "cluster", unsynced)
    assert (tmp_path / "a").exists()
    (tmp_path / "unsynced").write_text("another boot")
    await prepare(FakeEtcd(cluster), KEYS, tmp_path / "a", "cluster", unsynced)
    assert not (tmp_path / "a").exists()
    unsynced.end()
    assert not unsynced.is_of_earlier_boot()


def test_journal_that_is_not_durable_has_everything_when_it_is_opened_again(tmp_path):
    journal = Journal.open(tmp_path, durable=False)
    journal.register_type("things")
    journal.close()
    journal = Journal.open(tmp_path)
    assert journal.type_id("things") == 1
    journal.close()


class Deaf(FakeEtcd):
    """etcd has no quorum, or refuses this client after a request: no reply to anything."""

    async def txn(self, *_args, **_named):
        raise OutcomeUnknown("no reply in time")

    async def range(self, *_args, **_named):
        raise EtcdUnavailable("no member of etcd could do it")


async def test_start_without_a_usable_etcd_gives_up(tmp_path, autojump_clock):
    with trio.fail_after(30), pytest.raises(EtcdUnavailable):
        await prepare(Deaf(FakeCluster()), KEYS, tmp_path / "a", "cluster")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("batched", [True, False], ids=["now", "earlier release"])
async def test_cluster_whose_identity_is_lost_keeps_its_versions(tmp_path, autojump_clock, batched):
    """A node without a folder gives it a new identity, by which versions follow from revisions as before."""
    cluster = FakeCluster()
    if not batched:
        cluster.apply([], [Put(KEYS.cluster, Cluster(uuid4().bytes, "cluster").encode())], [])
    async with running(cluster, tmp_path, "a") as a:
        await write_history(a)
        versions = await a.read()
    cluster.apply([], [DeleteRange(KEYS.cluster)], [])
    async with running(cluster, tmp_path, "b") as b:
        stored = Cluster.decode(cluster.at(cluster.revision)[KEYS.cluster].value)
        assert is_batched(stored.cluster_id) == batched
        found = await b.read()
        assert found.keys() == versions.keys()
        one = next(
            key for key in found if found[key] == versions[key]
        )  # another was written again, as the floor
        assert await b.write(thing(one[2], found[one])) is None


async def test_floor_is_the_last_event_of_its_revision(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        first, gone = thing("x", time=10), thing("gone", time=10)
        for proposal in (first, gone):
            assert await a.write(proposal) is None
        removal = thing("gone", gone, time=20)
        removal.removed = True
        a.node.committer._newest = Sent(2, 0.0, 0)  # they wait for each other
        outcomes: list[Exception | None] = []
        for proposal in (thing("y", time=20), removal):
            a.node.committer.submit([proposal], outcomes.append)
        await a.write()
        assert outcomes == [None, None]
        *_, one, last = a.events()
        assert KEYS.revision(one.offset) == KEYS.revision(last.offset)
        assert gone.event is not None
        assert await compact(a, now=1000) == (gone.event.offset if last.removed else last.offset)
        assert await a.write(thing("z", time=30)) is None
        async with running(cluster, tmp_path, "b") as b:
            assert await b.read() == await a.read()
