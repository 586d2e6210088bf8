"""Every active namespace has a service account named default."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.world import world


async def test_it_is_made_with_the_namespace(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.settle()
        account = cluster.get("serviceaccounts", "default", "n")
        assert account is not None
        assert set(account) == {"metadata"}
        assert set(account["metadata"]) == {
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
        }


async def test_it_is_made_again_when_deleted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        before = cluster.get("serviceaccounts", "default")
        await cluster.delete("serviceaccounts", "default")
        await cluster.settle()
        after = cluster.get("serviceaccounts", "default")
        assert before is not None
        assert after is not None
        assert before["metadata"]["uid"] != after["metadata"]["uid"]


async def test_one_that_a_client_made_first_is_left_as_it_is(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        own = await cluster.create("serviceaccounts", "default", namespace="n")
        await cluster.settle(1)
        assert cluster.get("serviceaccounts", "default", "n") == own


async def test_a_namespace_that_is_going_gets_none(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("namespaces", "n", finalizers=["example.com/one"])
        await cluster.settle()
        await cluster.delete("namespaces", "n")
        await cluster.settle(100)
        assert cluster.names("serviceaccounts", "n") == []


async def test_after_a_restart_those_missing_are_made(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path, controllers=False) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.settle(1)
        assert cluster.names("serviceaccounts", None) == []
    async with world(tmp_path) as cluster:
        assert cluster.names("serviceaccounts", None) == ["default"] * 5
