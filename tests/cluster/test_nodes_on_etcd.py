"""Servers on members of a real etcd start, follow, survive the loss of a leader, and restart with their copies.

Also with client certificates, and with an etcd user.
"""

from pathlib import Path

import pytest
import trio

from rewound.actors.etcd.api import EtcdRefused
from rewound.gateway.settings.cluster import ClusterSettings
from tests.etcd_members import PASSWORD, EtcdMembers, etcd_members, needs_etcd
from tests.gateway.api import Api, served


def on(members: EtcdMembers, user_file: Path | None = None) -> ClusterSettings:
    endpoints = ",".join(url.partition("//")[2] for url in members.urls)
    return ClusterSettings(
        journal=f"etcd://{endpoints}/test",
        etcd_cafile=members.ca_file,
        etcd_certfile=members.client_file,
        etcd_keyfile=members.client_file,
        etcd_user_file=user_file,
    )


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


async def check_two_nodes(folder: Path, cluster: ClusterSettings) -> None:
    """They write, lead, and serve each other's objects; one restarts."""
    for name in "ab":
        (folder / name).mkdir()
    async with (
        served(folder / "a", cluster=cluster) as a,
        served(folder / "b", cluster=cluster) as b,
    ):
        await a.create("configmaps", config_map("first"))
        assert await names(b) == ["first"]
        await b.restart()
        await b.create("configmaps", config_map("second"))
        assert await names(a) == ["first", "second"]
        # The controllers run on one of them, by a lease.
        await a.create("namespaces", {"metadata": {"name": "passing"}})
        await b.delete("namespaces", "passing")
        with trio.fail_after(60):
            while (await a.ask("GET", "/api/v1/namespaces/passing")).status != 404:
                await trio.sleep(0.05)


@needs_etcd
async def test_nodes_with_client_certificates(tmp_path: Path) -> None:
    with etcd_members(tls=True) as members:
        await check_two_nodes(tmp_path, on(members))


@needs_etcd
async def test_nodes_as_a_user_of_etcd(tmp_path: Path) -> None:
    users = tmp_path / "user"
    users.write_text(f"root:{PASSWORD}\n")
    with etcd_members(users=True) as members:
        await check_two_nodes(tmp_path, on(members, users))
        users.write_text("root:another\n")
        await check_refused(tmp_path / "c", on(members, users), "password")
        await check_refused(tmp_path / "d", on(members), "etcd asks for a user")


async def check_refused(folder: Path, cluster: ClusterSettings, message: str) -> None:
    """The start of another node fails, and leaves in its data folder only the certificates that it had."""
    folder.mkdir()
    refused = pytest.RaisesExc(EtcdRefused, match=message)
    with pytest.RaisesGroup(refused, flatten_subgroups=True, allow_unwrapped=True):
        async with served(folder, cluster=cluster):
            pass
    assert [one.name for one in (folder / "data").iterdir()] == ["pki"]
