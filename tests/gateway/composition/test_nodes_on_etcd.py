"""Servers on members of a real etcd: they start, follow, outlive a leader, and restart with their copies."""

from pathlib import Path

import trio

from rewound.gateway.settings.cluster import ClusterSettings
from tests.etcd_members import EtcdMembers, etcd_members, needs_etcd
from tests.gateway.api import Api, served


def on(members: EtcdMembers) -> ClusterSettings:
    endpoints = ",".join(url.partition("//")[2] for url in members.urls)
    return ClusterSettings(journal=f"etcd://{endpoints}/test")


def config_map(name: str):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def names(api: Api, **query: str) -> list[str]:
    return [one["metadata"]["name"] for one in (await api.list("configmaps", **query))["items"]]


@needs_etcd
async def test_nodes_outlive_the_leader_of_etcd_and_restart_with_their_copies(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    with etcd_members(3) as members:
        cluster = on(members)
        async with (
            served(tmp_path / "a", cluster=cluster) as a,
            served(tmp_path / "b", cluster=cluster) as b,
        ):
            await a.create("configmaps", config_map("first"))
            assert await names(b) == ["first"]
            leader = await members.leader()
            leader.kill()
            with trio.fail_after(60):
                while (await b.ask("POST", b.path("configmaps"), config_map("second"))).status not in (
                    201,
                    409,
                ):
                    await trio.sleep(0.1)
            assert await names(a) == ["first", "second"]
            await b.finish()
            await a.create("configmaps", config_map("third"))
            members.restart(leader)
            await b.start()
            assert await names(b) == ["first", "second", "third"]
            versions = [
                (await one.ask("GET", "/api/v1/configmaps", resourceVersion=await a.head())).body
                for one in (a, b)
            ]
            assert versions[0] == versions[1]
