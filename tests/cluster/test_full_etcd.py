"""A server whose etcd refuses writes for lack of space starts, serves reads, and is alive but not ready."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rewound.actors.etcd.api import EtcdFull, prefix_end
from rewound.actors.store.etcd.records import Keys
from rewound.actors.store.etcd.space import INTERVAL
from rewound.gateway.settings.cluster import ClusterSettings
from rewound.server.failures import explain
from tests.actors.store.etcd.fake import FakeCluster, FakeEtcd
from tests.etcd_members import etcd_members, needs_etcd
from tests.gateway.api import Api, served
from tests.gateway.nodes import etcd_of, node

STEP = "compact it (etcdctl compact, up to the ModRevision of the key head)"
FAILED = {  # the check of each profile
    "cluster": "journal",
    "kubernetes": "etcd",
}


def config_map(name: str, data: str = ""):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": data}}


async def status(api: Api, path: str) -> int:
    return (await api.ask("GET", path)).status


async def put_large(api: Api, number: int) -> int:
    """Write the ConfigMap `large` again; etcd keeps every version until it is compacted."""
    document = config_map("large", f"{number}" + "x" * 200_000)
    return (await api.ask("PUT", api.path("configmaps", name="large"), document)).status


async def until_ready(api: Api) -> None:
    with trio.fail_after(20 * INTERVAL):
        while await status(api, "/readyz") != 200:
            await trio.sleep(0.1)


async def check_reads_and_refused_writes(api: Api) -> None:
    assert (await api.get("configmaps", "before"))["data"] == {"text": ""}
    listed = await api.list("configmaps")
    assert "before" in [one["metadata"]["name"] for one in listed["items"]]
    refused = await api.ask("POST", api.path("configmaps"), config_map("during"))
    assert refused.status == 507 and STEP in refused.document["message"]


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_server_starts_on_a_full_etcd_and_is_not_ready_until_it_accepts_writes(
    tmp_path: Path, dialect: str
) -> None:
    cluster = FakeCluster()
    async with node(tmp_path / "a", FakeEtcd(cluster), dialect=dialect) as api:
        await api.create("configmaps", config_map("before"))
        await api.finish()
        cluster.is_full = True
        await api.start()
        await check_reads_and_refused_writes(api)
        check = FAILED[dialect]
        for kind, expected in (("livez", 200), ("readyz", 500), ("healthz", 500)):
            report = await api.ask("GET", f"/{kind}", verbose="")
            assert report.status == expected
            assert (f"[-]{check} failed" in report.text) == (expected == 500)
        assert STEP in (await api.ask("GET", f"/readyz/{check}")).text
        assert await status(api, f"/readyz?exclude={check}") == 200
        assert "rewound_node_etcd_full 1" in (await api.ask("GET", "/metrics")).text
        cluster.is_full = False
        await until_ready(api)
        await api.create("configmaps", config_map("after"))
        assert "rewound_node_etcd_full 0" in (await api.ask("GET", "/metrics")).text


async def test_initial_objects_that_a_full_etcd_refused_are_created_later(tmp_path: Path) -> None:
    cluster = FakeCluster()
    path = "/apis/rbac.authorization.cluster.io/v1/clusterroles/view"
    async with node(tmp_path / "a", FakeEtcd(cluster)) as api:
        assert (await api.ask("DELETE", path)).status == 200
        await api.finish()
        cluster.is_full = True
        await api.start()
        assert await status(api, path) == 404
        cluster.is_full = False
        with trio.fail_after(20 * INTERVAL):
            while await status(api, path) != 200:
                await trio.sleep(0.1)
        # It is registered as a serving node, too, which needs a lease.
        etcd, serving = etcd_of(api), Keys("/test").serving
        with trio.fail_after(20 * INTERVAL):
            while not (await etcd.range(serving, prefix_end(serving))).kvs:
                await trio.sleep(0.1)


def test_start_that_needs_space_is_not_explained_as_an_etcd_that_is_away() -> None:
    said = explain(EtcdFull(), None)  # type: ignore[arg-type]
    assert said is not None and STEP in said and "start etcd," not in said


@needs_etcd
async def test_real_etcd_over_its_quota(tmp_path: Path) -> None:
    with etcd_members(quota=4 << 20) as members:
        endpoint = members.urls[0].partition("//")[2]
        cluster = ClusterSettings(journal=f"etcd://{endpoint}/test")
        async with served(tmp_path, cluster=cluster) as api:
            await api.create("configmaps", config_map("before"))
            await api.create("configmaps", config_map("large"))
            written = 0
            while await put_large(api, written) == 200:
                written += 1
            assert written > 2
            assert await status(api, "/readyz") == 500  # at once, without a look at the alarms
            await api.finish()
            await api.start()
            await check_reads_and_refused_writes(api)
            assert await status(api, "/livez") == 200
            assert await status(api, "/readyz") == 500
            async with members.running_client() as client:
                [member] = await client.status()
                assert ["NOSPACE" in one for one in member.alarms] == [True]
                [newest] = (await client.range(Keys("/test").head)).kvs
                await client.compact(newest.mod_revision)
            members.post("/v3/maintenance/defragment", {})
            alarm = {"memberID": str(member.member_id), "alarm": "NOSPACE", "action": "DEACTIVATE"}
            members.post("/v3/maintenance/alarm", alarm)
            await until_ready(api)
            assert await put_large(api, written) == 200
