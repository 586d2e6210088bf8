"""Another program puts and deletes random keys below the prefix: nodes still write, agree and join."""

import random
from collections.abc import Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgpack
import pytest
import trio

from rewound.actors.bootstrap.objects import ServingAddress
from rewound.actors.bootstrap.serving import ServingNodes
from rewound.actors.etcd.api import DeleteRange, Put, prefix_end
from rewound.actors.store.committer import Condition
from rewound.actors.store.etcd.records import (
    BATCHED,
    LAYOUT,
    Change,
    Cluster,
    Floor,
    Head,
    Quarantined,
    SealedKey,
    Serving,
    UnknownLayout,
    encode_heads,
)
from tests.actors.object_store import memory_folder
from tests.actors.store.etcd.fake import FakeCluster
from tests.actors.store.etcd.nodes import KEYS, RunningNode, running
from tests.actors.store.etcd.test_foreign import valid
from tests.actors.store.proposals import BODY, creation

VALID = b'{"metadata":{"name":"x","resourceVersion":"","valid":1}}'
CLAIMS = {"services": lambda body: frozenset({"ip/10.0.0.1"}) if b"10.0.0.1" in body else frozenset()}
FAMILIES = {
    "objects": [KEYS.of_object("things", "ns", f"x{number}") for number in range(4)]
    + [KEYS.of_object("services", "ns", "s"), KEYS.objects, KEYS.objects + b"x", KEYS.objects + b"\xff/a/b"],
    "head": [KEYS.head],
    "nodes": [KEYS.of_node("a"), KEYS.of_node("b"), KEYS.of_node("unknown"), KEYS.prefix + b"nodes/"],
    "leader": [KEYS.leader],
    "serving": [KEYS.of_serving("a"), KEYS.of_serving("unknown"), KEYS.serving, KEYS.serving + b"\xff"],
    "claims": [KEYS.of_claim("ip/10.0.0.1"), KEYS.of_claim("unknown")],
    "quotas": [KEYS.of_quotas("ns")],
    "floor": [KEYS.floor],
    "cluster": [KEYS.cluster],
    "adopted": [KEYS.adopted],
    "quarantine": [KEYS.of_quarantine(KEYS.of_object("things", "ns", "x0")), KEYS.quarantine],
    "keys": [KEYS.account_key],
    "unknown": [KEYS.prefix, KEYS.prefix + b"what", KEYS.prefix + b"\xff\xff"],
}


def values(chance: random.Random, cluster: FakeCluster) -> Iterator[bytes]:
    """Junk, records of every kind, and parts of existing values."""
    yield from (b"", b"junk", b"\x00" * 40, chance.randbytes(60), msgpack.packb([1, 2, {"a": []}]))
    yield msgpack.packb(-1)
    record = Change("update", chance.randrange(99), 2**63, "eve", "", "", chance.randbytes(16), b"", VALID)
    yield record.encode()
    yield record._replace(body=BODY).encode()
    yield record._replace(body=b"[]").encode()
    yield record.encode(LAYOUT)
    yield record._replace(place=chance.randrange(-1, 99)).encode()
    named = [Head("things", "ns", "x1", b""), Head("things", "ns", "x1", b"", record.encode())]
    named.append(Head("things", "ns", "x2", b"", b"junk"))
    yield from (encode_heads((one,), chance.choice((LAYOUT, BATCHED))) for one in named)
    yield encode_heads(named)
    yield encode_heads(())
    yield Cluster(b"another".ljust(16), "cluster").encode()
    yield Floor(chance.randrange(1, 2 * cluster.revision), chance.randrange(2**62)).encode()
    yield Serving("192.0.2.77", chance.randrange(1 << 17)).encode()
    yield Serving("nowhere", 1).encode()
    yield Quarantined(1, 1, "why", b"value").encode()
    yield SealedKey("id", b"sealed").encode()
    stored = [one.value for one in cluster.at(cluster.revision).values() if one.value]
    yield chance.choice(stored or [b"nothing"])
    yield chance.choice(stored or [b"nothing"])[: chance.randrange(20)]


def damage(chance: random.Random, cluster: FakeCluster, family: str) -> None:
    """One transaction of another program."""
    operations: list[Put | DeleteRange] = []
    for key in chance.sample(FAMILIES[family], k=chance.randint(1, len(FAMILIES[family]))):
        match chance.randrange(5):
            case 0:
                operations.append(DeleteRange(key))
            case 1:
                operations.append(Put(key, chance.choice(list(values(chance, cluster))), cluster.grant(2)))
            case _:
                operations.append(Put(key, chance.choice(list(values(chance, cluster)))))
    if not chance.randrange(12):
        operations = [DeleteRange(FAMILIES[family][0], prefix_end(FAMILIES[family][0]))]
    cluster.apply([], operations, [])


async def write(node: RunningNode, chance: random.Random) -> None:
    """Create, update or delete an object as an actor does: repeat until it was decided on the newest state."""
    name = f"x{chance.randrange(4)}"
    with trio.fail_after(60):
        while True:
            await node.node.freshness.wait()
            with node.journal.read() as view:
                row = view.get(1, "ns", name)
            proposal = creation(1, name, 0 if row is None else row.offset)
            proposal.removed = row is not None and chance.random() < 0.3
            condition = Condition(counted_in="ns", counted_at=node.feed.head)
            if await node.write(proposal, condition=condition) is None:
                return
            await trio.sleep(0.1)


@asynccontextmanager
async def serving(cluster: FakeCluster, folder: Path, name: str, number: int):
    """A node that also publishes where it serves."""
    address = ServingAddress(f"192.0.2.{number}", 6443)

    async def publish(_: object) -> None:
        pass

    async with (
        running(cluster, folder, name, claims=CLAIMS, check=valid) as node,
        trio.open_nursery() as nursery,
    ):
        nodes = ServingNodes(node.etcd, KEYS, name, address)
        found = await nodes.join()
        nursery.start_soon(nodes.run, publish, trio.Event())
        yield node, nodes, address, found
        nursery.cancel_scope.cancel()


async def rounds(seed: int, families: list[str], count: int) -> None:
    """In memory: a commit on a slow disk runs in a thread, for which virtual time does not wait."""
    with memory_folder() as folder:
        await rounds_in(folder, random.Random(seed), families, count)


async def rounds_in(folder: Path, chance: random.Random, families: list[str], count: int) -> None:
    cluster = FakeCluster()
    async with AsyncExitStack() as stack:
        a, a_serves, at_a, _ = await stack.enter_async_context(serving(cluster, folder, "a", 1))
        b, _, at_b, _ = await stack.enter_async_context(serving(cluster, folder, "b", 2))
        for _ in range(count):
            await write(chance.choice([a, b]), chance)
            for _ in range(chance.randint(1, 3)):
                damage(chance, cluster, chance.choice(families))
            await write(chance.choice([a, b]), chance)
            await trio.sleep(12)
            await check(chance, a, b)
        async with serving(cluster, folder, "c", 3) as (c, _, at_c, found):
            assert {at_a, at_b, at_c} <= found
            await trio.sleep(12)
            await check(chance, a, b, c)
            assert {one.offset for one in c.events()} <= {one.offset for one in a.events()}
        assert at_b in await a_serves.join()
    async with running(cluster, folder, "a", claims=CLAIMS, check=valid) as a:
        await write(a, chance)


async def check(chance: random.Random, *nodes: RunningNode) -> None:
    """All write; then they have the same objects and quarantine, and one runs the controllers."""
    for node in nodes:
        await write(node, chance)
    a, *others = nodes
    for other in others:
        assert await other.read() == await a.read()
        assert other.node.foreign.quarantined == a.node.foreign.quarantined
    state = a.etcd.cluster.at(a.etcd.cluster.revision)
    in_etcd = {
        key: KEYS.version(one.mod_revision, Change.decode(one.value).place)
        for key, one in state.items()
        if key.startswith(KEYS.objects)
    }
    names = {number: name for name, number in a.journal.types().items()}
    ours = {
        KEYS.of_object(names[kind], *place): version for (kind, *place), version in (await a.read()).items()
    }
    assert ours == in_etcd
    with trio.fail_after(30):
        while not any(one.node.election.term() for one in nodes):
            await trio.sleep(0.1)


@pytest.mark.parametrize("family", FAMILIES)
async def test_nodes_survive_foreign_writes_to_one_family_of_keys(autojump_clock, family):
    await rounds(seed=39, families=[family], count=3)


async def test_nodes_survive_foreign_writes(autojump_clock):
    await rounds(seed=13, families=list(FAMILIES), count=6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
async def test_nodes_survive_many_foreign_writes(autojump_clock, seed):
    await rounds(seed=seed, families=list(FAMILIES), count=20)


async def test_node_joins_where_the_floor_is_a_record_of_another_key(tmp_path, autojump_clock):
    """Of a layout that only other keys have: no later release wrote it."""
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a"):
        cluster.apply([], [Put(KEYS.floor, encode_heads((Head("things", "ns", "x1", b""),), BATCHED))], [])
        async with running(cluster, tmp_path, "b"):
            pass


@pytest.mark.parametrize("key", [KEYS.cluster, KEYS.floor])
async def test_start_names_the_key_that_a_later_release_wrote(tmp_path, autojump_clock, key):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a"):
        pass
    cluster.apply([], [Put(key, msgpack.packb([3, "later"]))], [])
    with pytest.RaisesGroup(
        pytest.RaisesExc(UnknownLayout, match=f"the key {key.decode()} in etcd has layout 3"),
        flatten_subgroups=True,
    ):
        async with running(cluster, tmp_path, "b"):
            pass
