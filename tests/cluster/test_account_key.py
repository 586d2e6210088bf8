"""Service account tokens are valid at all nodes: etcd has the signing key, sealed with the CA's key."""

import shutil
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rewound.actors.etcd.api import DeleteRange, Etcd, Put, RangeResult, TxnResult
from rewound.actors.store.etcd.copy import CannotJoin
from rewound.actors.store.etcd.records import Keys, SealedKey
from rewound.gateway.settings.access import ServiceAccountSettings
from rewound.gateway.settings.cluster import ClusterSettings
from tests.actors.object_store import memory_folder
from tests.actors.store.etcd.fake import FakeCluster, FakeEtcd
from tests.etcd_members import etcd_members, needs_etcd
from tests.gateway.api import Api, served
from tests.gateway.nodes import node

KEYS = Keys("/test")
Start = Callable[..., Any]


@asynccontextmanager
async def in_memory() -> AsyncIterator[tuple[Etcd, Start, Path]]:
    cluster = FakeCluster()
    with memory_folder() as folder:
        yield FakeEtcd(cluster), lambda name, **more: node(folder / name, FakeEtcd(cluster), **more), folder


@asynccontextmanager
async def on_etcd() -> AsyncIterator[tuple[Etcd, Start, Path]]:
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


async def token_of(api: Api) -> str:
    request = {"apiVersion": "authentication.cluster.io/v1", "kind": "TokenRequest", "spec": {}}
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    with trio.fail_after(60):
        while (reply := await api.ask("POST", path, request)).status == 404:
            await trio.sleep(0.02)  # a controller makes the account
    return str(reply.expect(201)["status"]["token"])


async def is_accepted(api: Api, token: str) -> bool:
    """Whether the token is authenticated, whatever it may do."""
    status = (await api.ask("GET", "/api/v1/namespaces/default/configmaps", token=token)).status
    assert status in (200, 401, 403)
    return status != 401


def own_key(folder: Path, name: str) -> Path:
    return folder / name / "data" / "pki" / "sa.key"


@everywhere
async def test_token_of_each_node_is_accepted_by_all(opened) -> None:
    async with opened() as (_, start, folder), start("a") as a, start("b") as b, start("c") as c:
        for issuer in (a, b, c):
            token = await token_of(issuer)
            assert [await is_accepted(one, token) for one in (a, b, c)] == [True] * 3
            assert not await is_accepted(issuer, token[:-8] + "AAAAAAAA")
        assert len({own_key(folder, name).read_bytes() for name in "abc"}) == 1
        assert stat.S_IMODE(own_key(folder, "c").stat().st_mode) == 0o600
        await b.restart()
        assert await is_accepted(b, token)


@everywhere
async def test_etcd_alone_does_not_have_the_key(opened) -> None:
    async with opened() as (etcd, start, folder), start("a"):
        pem = own_key(folder, "a").read_bytes()
        stored = (await etcd.range(KEYS.prefix, KEYS.end)).kvs
        assert any(one.key == KEYS.account_key for one in stored)
        secret = pem.splitlines()[1]
        assert not [one.key for one in stored if secret in one.value or b"PRIVATE" in one.value]


async def check_refused(start: Start, name: str, message: str, **more: Any) -> None:
    refused = pytest.RaisesExc(CannotJoin, match=message)
    with pytest.RaisesGroup(refused, flatten_subgroups=True, allow_unwrapped=True):
        async with start(name, **more):
            pass


async def test_node_without_the_authority_is_refused() -> None:
    async with in_memory() as (_, start, folder), start("a"):
        pki = folder / "b" / "data" / "pki"
        pki.mkdir(parents=True)  # empty: nothing was copied
        await check_refused(start, "b", "copy the folder pki of a node that runs")
        assert list(pki.iterdir()) == []
        for name in ("ca.crt", "ca.key"):
            shutil.copy(folder / "a" / "data" / "pki" / name, pki)
        async with start("b"):
            assert own_key(folder, "b").read_bytes() == own_key(folder, "a").read_bytes()


async def test_node_with_another_key_is_refused() -> None:
    async with in_memory() as (_, start, folder):
        async with in_memory() as (_, elsewhere, other), elsewhere("b"):
            shutil.copytree(other / "b" / "data" / "pki", folder / "b" / "data" / "pki")
        before = own_key(folder, "b").read_bytes()
        async with start("a"):
            await check_refused(start, "b", "move the file away")
            assert own_key(folder, "b").read_bytes() == before
            own_key(folder, "b").unlink()
            async with start("b") as b:
                assert await is_accepted(b, await token_of(b))


@pytest.mark.parametrize(
    "damage", [Put(KEYS.account_key, b"junk"), DeleteRange(KEYS.account_key)], ids=["junk", "gone"]
)
async def test_nodes_put_the_key_again(damage: Put | DeleteRange) -> None:
    async with in_memory() as (etcd, start, _), start("a") as a:
        [before] = (await etcd.range(KEYS.account_key)).kvs
        await etcd.txn((), [damage])
        with trio.fail_after(60):
            while not (now := (await etcd.range(KEYS.account_key)).kvs) or now[0].value != before.value:
                await trio.sleep(0.02)
        async with start("b") as b:
            assert await is_accepted(b, await token_of(a))
        await a.finish()
        await etcd.txn((), [damage])
        if isinstance(damage, Put):
            await check_refused(start, "c", "pki/sa.key")
        await a.start()  # it has the key
        [again] = (await etcd.range(KEYS.account_key)).kvs
        assert SealedKey.decode(again.value).key_id == SealedKey.decode(before.value).key_id
        async with start("c") as c:
            assert await is_accepted(c, await token_of(a))


async def test_record_that_no_node_sealed_is_named() -> None:
    async with in_memory() as (etcd, start, folder):
        async with start("a"):
            pass
        before = own_key(folder, "a").read_bytes()
        await etcd.txn((), [Put(KEYS.account_key, SealedKey("id", b"sealed").encode())])
        await check_refused(start, "a", "etcdctl del test/keys/service-accounts")
        await etcd.txn((), [DeleteRange(KEYS.account_key)])
        async with start("a"):
            assert own_key(folder, "a").read_bytes() == before


class _PutAgain(FakeEtcd):
    """Another node stores a key again while this one starts."""

    def __init__(self, cluster: FakeCluster, kept: bytes) -> None:
        super().__init__(cluster)
        self._kept = kept

    async def range(self, key: bytes, *more: Any, **options: Any) -> RangeResult:
        found = await super().range(key, *more, **options)
        if key == KEYS.account_key and not found.kvs:
            self.cluster.apply([], [Put(key, self._kept)], [])
        return found


async def test_new_node_waits_for_a_node_that_puts_the_key_again() -> None:
    cluster = FakeCluster()
    with memory_folder() as folder:
        async with node(folder / "a", FakeEtcd(cluster)):
            kept = cluster.at(cluster.revision)[KEYS.account_key].value
        cluster.apply([], [DeleteRange(KEYS.account_key)], [])
        async with node(folder / "b", _PutAgain(cluster, kept)):
            assert own_key(folder, "a").read_bytes() == own_key(folder, "b").read_bytes()


async def test_key_of_a_flag_stays_out_of_etcd() -> None:
    async with in_memory() as (_, start, folder), start("elsewhere"):
        shutil.copy(own_key(folder, "elsewhere"), folder / "given.key")
        chosen = ServiceAccountSettings(service_account_signing_key_file=folder / "given.key")
        cluster = FakeCluster()
        async with (
            node(folder / "a", FakeEtcd(cluster), service_accounts=chosen) as a,
            node(folder / "b", FakeEtcd(cluster), service_accounts=chosen) as b,
        ):
            assert await is_accepted(b, await token_of(a))
            assert KEYS.account_key not in cluster.at(cluster.revision)
            assert not own_key(folder, "a").exists()


class _Late(FakeEtcd):
    """Another node starts completely before this one stores the key for service account tokens."""

    def __init__(self, cluster: FakeCluster, first: Callable[[], Awaitable[object]]) -> None:
        super().__init__(cluster)
        self._first: Callable[[], Awaitable[object]] | None = first

    async def txn(self, compares: Any, then: Any, otherwise: Any = ()) -> TxnResult:
        if self._first is not None and any(
            isinstance(one, Put) and one.key == KEYS.account_key for one in then
        ):
            first, self._first = self._first, None
            await first()
        return await super().txn(compares, then, otherwise)


async def test_nodes_that_start_at_the_same_time_have_one_key() -> None:
    cluster = FakeCluster()
    with memory_folder() as folder:
        async with node(folder / "a", FakeEtcd(FakeCluster())):
            pass  # makes the CA that all have
        for name in "bc":
            shutil.copytree(folder / "a" / "data" / "pki", folder / name / "data" / "pki")
            own_key(folder, name).unlink()

        async def run_b() -> None:
            async with node(folder / "b", FakeEtcd(cluster)):
                pass

        async with node(folder / "c", _Late(cluster, run_b)) as c, node(folder / "b", FakeEtcd(cluster)) as b:
            assert own_key(folder, "b").read_bytes() == own_key(folder, "c").read_bytes()
            assert await is_accepted(b, await token_of(c))
