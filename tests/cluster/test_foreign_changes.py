"""Other programs write to the etcd of a cluster: what clients of all nodes see of it, also on a real etcd."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from rewound.actors.etcd.api import DeleteRange, Etcd, Put
from rewound.actors.store.etcd.foreign import DELETED, SHORTENED, UNREADABLE, WRITTEN
from rewound.actors.store.etcd.records import Change, Keys, Quarantined
from rewound.cli.main import main
from rewound.gateway.settings.cluster import ClusterSettings
from tests.actors.object_store import memory_folder
from tests.actors.store.etcd.fake import FakeCluster, FakeEtcd
from tests.etcd_members import etcd_members, needs_etcd
from tests.gateway.api import Api, config_map, names, served
from tests.gateway.nodes import node

KEYS = Keys("/test")
JUNK = b"somebody else wrote this"


def key(name: str, type_name: str = "configmaps") -> bytes:
    return KEYS.of_object(type_name, "default", name)


@asynccontextmanager
async def in_memory() -> AsyncIterator[tuple[Etcd, Callable[[str], Any], Path]]:
    cluster = FakeCluster()
    with memory_folder() as folder:
        yield FakeEtcd(cluster), lambda name: node(folder / name, FakeEtcd(cluster)), folder


@asynccontextmanager
async def on_etcd() -> AsyncIterator[tuple[Etcd, Callable[[str], Any], Path]]:
    with etcd_members() as members, memory_folder() as folder:
        settings = ClusterSettings(journal=f"etcd://{members.urls[0].partition('//')[2]}/test")

        def start(name: str) -> Any:
            (folder / name).mkdir(exist_ok=True)
            return served(folder / name, cluster=settings)

        async with members.running_client() as client:
            yield client, start, folder


everywhere = pytest.mark.parametrize(
    "opened", [pytest.param(in_memory, id="memory"), pytest.param(on_etcd, id="etcd", marks=needs_etcd)]
)


async def wait_until(holds: Callable[[], Awaitable[bool]]) -> None:
    with trio.fail_after(60):
        while not await holds():
            await trio.sleep(0.02)


async def configured(api: Api) -> list[str]:
    return [name for name in names(await api.list("configmaps")) if name != "kube-root-ca.crt"]


async def record_of(etcd: Etcd, name: str) -> Change:
    return Change.decode((await etcd.range(key(name))).kvs[0].value)


@everywhere
async def test_foreign_changes_of_objects(opened, capsys) -> None:
    """One object is deleted, one restored, one overwritten; a new node has the same, and the cluster continues."""
    async with opened() as (etcd, start, folder), start("a") as a, start("b") as b:
        for name in ("deleted", "junk", "restored", "stays"):
            await a.create("configmaps", config_map(name, data="first"))
        old = await record_of(etcd, "restored")
        await b.replace("configmaps", config_map("restored", data="second"))
        await etcd.txn(
            (),
            [
                DeleteRange(key("deleted")),
                Put(key("junk"), JUNK),
                Put(key("restored"), old.encode()),
                Put(key("of-no-kind", "unknown"), old.encode()),
            ],
        )

        async def is_settled() -> bool:
            return await configured(a) == await configured(b) == ["restored", "stays"]

        await wait_until(is_settled)
        assert (await b.get("configmaps", "restored"))["data"] == {"data": "first"}
        for api in (a, b):
            assert (await api.ask("GET", api.path("configmaps", "default", "junk"))).status == 404
            assert api.store is not None and api.store.node is not None
            quarantined = api.store.node.foreign.quarantined
            with trio.fail_after(60):
                while set(quarantined) != {key("junk"), key("of-no-kind", "unknown")}:
                    await trio.sleep(0.02)
            metrics = (await api.ask("GET", "/metrics")).text
            assert "rewound_node_quarantined_keys 2" in metrics
        await check_authors(b)
        await a.create("configmaps", config_map("junk"))
        async with start("c") as c:
            assert await configured(c) == await configured(a) == ["junk", "restored", "stays"]
            assert (await c.list("configmaps")) == (await a.list("configmaps"))
        await b.finish()
        assert main(["verify", str(folder / "b" / "data")]) == 0
        assert (
            f"quarantined in etcd since version {KEYS.version(quarantined[key('junk')].revision)}"
            in capsys.readouterr().out
        )
        assert main(["verify", str(folder / "b" / "data"), "-o", "json"]) == 0
        listed = orjson.loads(capsys.readouterr().out)["quarantined"]
        assert [one["key"] for one in listed] == [key("junk").decode(), key("of-no-kind", "unknown").decode()]
        await b.start()


async def check_authors(api: Api) -> None:
    """The journal has each of these changes, without a user."""
    assert api.store is not None
    with api.store.journal.read() as view:
        found = {one.name: one for one in view.all_events(0) if "not through the API" in one.reason}
    assert {name: (one.verb, one.user, one.manager, one.reason) for name, one in found.items()} == {
        "deleted": ("delete", "", "", DELETED),
        "junk": ("delete", "", "", UNREADABLE),
        "restored": ("update", "", "", WRITTEN),
    }


OTHER_KEYS = ("head", "serving/x", "leader", "floor", "adopted", "nodes/x", "cluster")


@pytest.mark.parametrize(
    ("opened", "damaged"),
    [
        *(pytest.param(in_memory, (name,), id=name) for name in OTHER_KEYS),
        pytest.param(on_etcd, OTHER_KEYS, id="all on etcd", marks=needs_etcd),
    ],
)
async def test_junk_in_other_keys(opened, damaged: tuple[str, ...]) -> None:
    """Two nodes continue, one restarts with its folder, and one with a new folder."""
    async with opened() as (etcd, start, _), start("a") as a, start("b") as b:
        await a.create("configmaps", config_map("first"))
        await etcd.txn((), [Put(KEYS.prefix + name.encode(), JUNK) for name in damaged])
        assert await configured(b) == ["first"]
        await b.create("configmaps", config_map("second"))
        await b.restart()
        assert await configured(b) == await configured(a) == ["first", "second"]
        async with start("c") as c:
            assert await configured(c) == ["first", "second"]
            await c.create("configmaps", config_map("third"))
        assert await configured(a) == ["first", "second", "third"]


@needs_etcd
async def test_largest_value_that_etcd_takes_goes_to_the_quarantine() -> None:
    """The request that moves it is larger than its put: the quarantine has only its beginning."""
    async with on_etcd() as (etcd, start, _), start("a") as a:
        await a.create("configmaps", config_map("large", data="x" * 100_000))
        await etcd.txn((), [Put(key("large"), b"\xff" * (1_572_864 - 200))])
        assert a.store is not None and a.store.node is not None
        quarantined = a.store.node.foreign.quarantined
        with trio.fail_after(60):
            while key("large") not in quarantined:
                await trio.sleep(0.02)
        [stored] = (await etcd.range(KEYS.of_quarantine(key("large")))).kvs
        assert Quarantined.decode(stored.value).value == b"\xff" * SHORTENED
        assert await configured(a) == []
