"""Other programs change objects in etcd: their deletes and updates become events without a user, or go into
quarantine.
"""

from collections.abc import Mapping

import msgpack
import pytest
import trio

from rewound.actors.etcd.api import DeleteRange, Put, prefix_end
from rewound.actors.store.committer import Condition, Overtaken
from rewound.actors.store.etcd.compaction import Compaction
from rewound.actors.store.etcd.foreign import DELETED, UNREADABLE, WRITTEN
from rewound.actors.store.etcd.records import Change, Floor, Head, Quarantined, Unreadable, encode_heads
from rewound.actors.store.proposal import Proposal
from tests.actors.store.etcd.fake import FakeCluster
from tests.actors.store.etcd.nodes import FOUND_AT, KEYS, RunningNode, running
from tests.actors.store.etcd.test_follower import one_by_one, twice
from tests.actors.store.proposals import BODY, creation


def thing(name: str, previous: int | Proposal = 0) -> Proposal:
    return creation(1, name, previous)


def key(name: str) -> bytes:
    return KEYS.of_object("things", "ns", name)


def foreign(cluster: FakeCluster, *operations: Put | DeleteRange) -> None:
    cluster.apply([], operations, [])


async def settle(*nodes: RunningNode) -> None:
    """Let virtual time pass until nodes have settled all foreign changes."""
    await trio.sleep(10)
    for node in nodes:
        await node.node.freshness.wait()


def names(found: dict[tuple[int, str, str], int]) -> list[str]:
    return sorted(name for _, _, name in found)


async def write(node: RunningNode, *names: str) -> None:
    for name in names:
        assert await node.write(thing(name)) is None


async def check_same(*nodes: RunningNode) -> None:
    """They have the same events, objects and quarantine, and can write."""
    first, *others = nodes
    for other in others:
        assert await other.read() == await first.read()
        kept = {one.offset for one in other.events()}
        assert [one for one in first.events() if one.offset in kept] == other.events()
        assert other.node.foreign.quarantined == first.node.foreign.quarantined
    for number, node in enumerate(nodes):
        assert await node.write(thing(f"written-{number}-{len(nodes)}")) is None


async def test_foreign_delete_is_a_delete_without_a_user(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        await write(a, "x", "y")
        before = a.events()[0]
        foreign(cluster, DeleteRange(key("x")))
        await settle(a, b)
        last = a.events()[-1]
        assert (last.name, last.removed, last.verb, last.user, last.manager) == ("x", True, "delete", "", "")
        assert (last.previous, last.reason, last.time) == (before.offset, DELETED, FOUND_AT)
        assert names(await b.read()) == ["y"]
        assert await b.write(thing("x")) is None  # its name is free
        async with running(cluster, tmp_path, "c") as c:
            await check_same(a, b, c)
            assert a.events()[:4] == c.events()[:4]


async def test_objects_deleted_by_one_revision_each_get_a_version(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        await write(a, *(f"x{number}" for number in range(30)))
        foreign(cluster, DeleteRange(key(""), prefix_end(key(""))))
        await settle(a, b)
        gone = [one for one in b.events() if one.removed]
        assert sorted(one.name for one in gone) == sorted(f"x{number}" for number in range(30))
        assert len({one.offset for one in gone}) == 30
        await check_same(a, b)


JUNK = {
    "text": b"junk",
    "nothing": b"",
    "cut off": Change("create", 0, 1, "", "", "", b"", b"", BODY).encode()[:-7],
    "another record": Floor(1, 1).encode(),
    "a newest change": encode_heads((Head("things", "ns", "x", b""),)),
    "a later layout": msgpack.packb([99, "x"]),
    "not valid": Change("create", 0, 1, "", "", "", b"", b"", b"{}").encode(),
}


@pytest.mark.parametrize("value", JUNK.values(), ids=JUNK)
async def test_unreadable_value_goes_to_the_quarantine(tmp_path, autojump_clock, value):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        await write(a, "x", "y")
        foreign(cluster, Put(key("x"), value), Put(key("new"), value))
        written = cluster.revision
        await settle(a, b)
        assert names(await a.read()) == ["y"]
        last = a.events()[-1]
        assert (last.name, last.removed, last.user, last.reason) == ("x", True, "", UNREADABLE)
        for node in (a, b):
            found = node.node.foreign.quarantined
            assert set(found) == {key("x"), key("new")}
            assert all(one.revision == written and one.why for one in found.values())
        for name in ("x", "new"):
            stored = cluster.at(cluster.revision)[KEYS.of_quarantine(key(name))]
            assert Quarantined.decode(stored.value).value == value
        async with running(cluster, tmp_path, "c") as c:
            await settle(c)
            await check_same(a, b, c)
        assert await b.write(thing("x")) is None  # the name can be used again
        foreign(cluster, DeleteRange(KEYS.of_quarantine(key("x"))))
        await settle(a, b)
        assert set(a.node.foreign.quarantined) == set(b.node.foreign.quarantined) == {key("new")}


KEYS_OF_NOBODY = {
    "of no object": KEYS.objects + b"x",
    "too long": KEYS.objects + b"a/b/c/d",
    "no text": KEYS.objects + b"\xff\xfe/b/c",
    "without a name": KEYS.objects + b"things/ns/",
    "empty": KEYS.objects,
}


@pytest.mark.parametrize("odd", KEYS_OF_NOBODY.values(), ids=KEYS_OF_NOBODY)
async def test_key_of_no_object_goes_to_the_quarantine(tmp_path, autojump_clock, odd):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        foreign(cluster, Put(odd, b"junk"))
        await write(a, "x")
        await settle(a, b)
        assert set(a.node.foreign.quarantined) == {odd}
        assert odd not in cluster.at(cluster.revision)
        await check_same(a, b)


async def test_key_forges_no_line_of_the_log(tmp_path, autojump_clock, caplog):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        foreign(cluster, Put(KEYS.objects + "things/ns/x\nERROR é forged".encode(), b"junk"))
        await settle(a)
        assert r"x\nERROR é forged" in caplog.text
        assert not any(line.startswith("ERROR") for line in caplog.text.splitlines())


def valid(type_name: str, namespace: str, name: str, body: bytes) -> tuple[bytes, bytes]:
    if b"valid" not in body:
        raise Unreadable("not valid")
    return b"\x90", body


async def test_valid_foreign_record_is_an_update_without_a_user(tmp_path, autojump_clock):
    cluster = FakeCluster()
    body = b'{"metadata":{"name":"x","resourceVersion":"","valid":1}}'
    record = Change("create", 0, 5, "eve", "eve", "", b"id", b"facts", body).encode()
    async with (
        running(cluster, tmp_path, "a", check=valid) as a,
        running(cluster, tmp_path, "b", check=valid) as b,
    ):
        await write(a, "x")
        foreign(cluster, Put(key("x"), record))
        foreign(cluster, Put(key("new"), record))
        await settle(a, b)
        first, *ours = b.events()
        assert [(one.name, one.verb, one.previous, one.user, one.reason) for one in ours] == [
            ("x", "update", first.offset, "", WRITTEN),
            ("new", "create", 0, "", WRITTEN),
        ]
        assert all(b'"resourceVersion":"%d"' % one.offset in one.body for one in ours)
        assert not a.node.foreign.quarantined
        async with running(cluster, tmp_path, "c", check=valid) as c:
            await check_same(a, b, c)


@pytest.mark.parametrize("deliver", [twice, one_by_one], ids=["twice", "parts"])
async def test_foreign_revisions_are_the_same_whatever_the_watch_delivers(tmp_path, autojump_clock, deliver):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        b.etcd.deliver = deliver
        await write(a, "x", "y", "z")
        foreign(cluster, DeleteRange(key("x")), Put(key("y"), b"junk"))
        await write(a, "more")
        foreign(cluster, Put(KEYS.head, b"junk"), Put(key("z"), b"junk"))
        await settle(a, b)
        assert names(await a.read()) == ["more"]
        await check_same(a, b)


async def test_foreign_changes_while_all_nodes_are_down(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        await write(a, "x", "y", "z")
    foreign(cluster, DeleteRange(key("x")), Put(key("y"), b"junk"))
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        await settle(a, b)
        assert names(await b.read()) == ["z"]
        await check_same(a, b)


async def test_check_that_crashes_holds_up_only_its_own_key(tmp_path, autojump_clock):
    def crash(type_name: str, namespace: str, name: str, body: bytes) -> tuple[bytes, bytes]:
        if name == "x":
            raise KeyError("spec")
        return valid(type_name, namespace, name, body)

    cluster = FakeCluster()
    record = Change("create", 0, 1, "", "", "", b"", b"", b'{"metadata":{"resourceVersion":"","valid":1}}')
    async with running(cluster, tmp_path, "a", check=crash) as a:
        foreign(cluster, Put(key("x"), record.encode()), Put(key("y"), record.encode()))
        await settle(a)
        assert names(await a.read()) == ["y"]
        a.node.foreign.check = valid  # for example by a release that is correct
        await settle(a)
        assert names(await a.read()) == ["x", "y"]


async def test_node_that_is_behind_settles_nothing_when_head_is_missing(tmp_path, autojump_clock):
    """Writes of other nodes are not foreign, however late this node learns of them."""
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        b.etcd.stalled = True
        await write(a, "x")
        foreign(cluster, DeleteRange(KEYS.head))
        b.node.foreign.suspect((key("x"),))
        await trio.sleep(1)
        b.etcd.stalled = False
        await settle(a, b)
        assert [one.reason for one in a.events()] == [""]
        await check_same(a, b)


async def test_claim_of_another_node_stays_when_head_is_missing(tmp_path, autojump_clock):
    cluster = FakeCluster()
    claims = {"services": addresses}
    async with running(cluster, tmp_path, "a", claims) as a, running(cluster, tmp_path, "b", claims) as b:
        b.etcd.stalled = True
        assert await a.write(service("s")) is None
        foreign(cluster, DeleteRange(KEYS.head))
        outcome: list[Exception | None] = []

        async def write_late() -> None:
            outcome.append(await b.write(service("t")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_late)
            await trio.sleep(1)
            b.etcd.stalled = False
        assert isinstance(outcome[0], Overtaken)
        assert names(await b.read()) == ["s"]


async def test_quarantine_is_reported_once_for_many_keys_and_without_values(tmp_path, autojump_clock):
    cluster = FakeCluster()
    reports: list[int] = []

    async def report(found: Mapping[bytes, Quarantined]) -> None:
        reports.append(len(found))

    async with running(cluster, tmp_path, "a") as a:
        a.node.foreign.on_change = report
        record = Quarantined(1, 1, "why", bytes(1000)).encode()
        for number in range(300):
            foreign(cluster, Put(KEYS.of_quarantine(key(f"x{number}")), record))
        await settle(a)
        assert reports[-1] == 300 and len(reports) < 10
        assert not any(one.value for one in a.node.foreign.quarantined.values())
        foreign(cluster, DeleteRange(KEYS.of_quarantine(key("x7"))))
        await settle(a)
        assert reports[-1] == 299
        async with running(cluster, tmp_path, "b") as b:
            await check_same(a, b)


class Clock:
    def now(self) -> int:
        return 10**9


async def compact(node: RunningNode) -> int:
    with trio.fail_after(30):
        while not node.node.election.term():
            await trio.sleep(0.1)
    return await Compaction(node.etcd, KEYS, node.journal, Clock(), node.node.election, 0).run_once()


async def test_copy_made_after_compaction_has_the_same_state_and_quarantine(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        await write(a, "x", "y", "z")
        foreign(cluster, DeleteRange(key("x")), Put(key("y"), b"junk"))
        await settle(a)
        await write(a, "later")
        assert await compact(a) == KEYS.version(cluster.compacted) == a.feed.head
        async with running(cluster, tmp_path, "b") as b:
            await settle(b)
            assert names(await b.read()) == ["later", "z"]
            await check_same(a, b)


async def test_copy_made_of_a_state_with_changes_that_are_not_settled(tmp_path, autojump_clock):
    """The retention floor is between a foreign change and the change that settles it."""
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        await write(a, "x", "y", "z")
        a.etcd.stalled = True  # it learns of nothing
        record = Change("create", 0, 1, "", "", "", b"", b"", BODY).encode()
        foreign(cluster, Put(key("x"), b"junk"), DeleteRange(key("y")), Put(key("z"), record))
        change = Change("create", 0, 7, "", "", "", b"id", b"\x90", BODY)
        foreign(
            cluster,
            Put(key("floor"), change.encode()),
            Put(KEYS.head, encode_heads((Head("things", "ns", "floor", b"id"),))),
        )
        foreign(cluster, Put(KEYS.floor, Floor(KEYS.version(cluster.revision), 7).encode()))
        async with running(cluster, tmp_path, "b") as b:
            assert await b.write(thing("y")) is None  # a has it still
            a.etcd.stalled = False
            a.etcd.break_watches.set()
            a.etcd.break_watches = trio.Event()
            await settle(a, b)
            assert names(await a.read()) == names(await b.read()) == ["floor", "y"]
            assert await a.read() == await b.read()
            assert a.node.foreign.quarantined == b.node.foreign.quarantined
            assert set(a.node.foreign.quarantined) == {key("x"), key("z")}
            for node in (a, b):
                assert await node.write(thing(f"of-{node.node.member.node}")) is None


def addresses(body: bytes) -> frozenset[str]:
    return frozenset({"ip/10.0.0.1"}) if b"10.0.0.1" in body else frozenset()


ADDRESSED = b'{"metadata":{"name":"s","resourceVersion":"","valid":1},"ip":"10.0.0.1"}'
CLAIM = KEYS.of_claim("ip/10.0.0.1")


def service(name: str) -> Proposal:
    proposal = creation(2, name)
    proposal.body = ADDRESSED
    return proposal


async def test_claim_without_an_owner_is_given_to_a_node_that_wants_it(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a", {"services": addresses}) as a:
        await write(a, "x")
        foreign(cluster, Put(CLAIM, b""))
        await write(a, "y")
        assert await a.write(service("s")) is None
        assert isinstance(await a.write(service("t")), Overtaken)  # this one is claimed


async def test_claim_goes_with_its_deleted_service(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a", {"services": addresses}) as a:
        assert await a.write(service("s")) is None
        foreign(cluster, DeleteRange(KEYS.of_object("services", "ns", "s")))
        await settle(a)
        assert CLAIM not in cluster.at(cluster.revision)
        assert await a.write(service("t")) is None


async def test_service_with_the_address_of_another_goes_to_the_quarantine(tmp_path, autojump_clock):
    cluster = FakeCluster()
    record = Change("create", 0, 1, "", "", "", b"", b"", ADDRESSED).encode()
    async with running(cluster, tmp_path, "a", {"services": addresses}, check=valid) as a:
        foreign(cluster, Put(KEYS.of_object("services", "ns", "first"), record))
        await settle(a)
        assert CLAIM in cluster.at(cluster.revision)
        second = KEYS.of_object("services", "ns", "second")
        foreign(cluster, Put(second, record))
        await settle(a)
        assert names(await a.read()) == ["first"]
        assert "its address" in a.node.foreign.quarantined[second].why


async def test_quotas_of_a_namespace_that_another_program_wrote(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a:
        await write(a, "x")
        foreign(cluster, Put(KEYS.of_quotas("ns"), b"junk"))
        counted = Condition(counted_in="ns", counted_at=a.feed.head)
        assert await a.write(thing("y"), condition=counted) is None
