"""The service account controller creates a service account named default in every active namespace."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.control_plane import open_control_plane


async def test_default_account_is_created_with_its_namespace(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.wait_until_idle()
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


async def test_deleted_default_account_is_created_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        before = cluster.get("serviceaccounts", "default")
        await cluster.delete("serviceaccounts", "default")
        await cluster.wait_until_idle()
        after = cluster.get("serviceaccounts", "default")
        assert before is not None
        assert after is not None
        assert before["metadata"]["uid"] != after["metadata"]["uid"]


async def test_default_account_that_a_client_created_stays_unchanged(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        own = await cluster.create("serviceaccounts", "default", namespace="n")
        await cluster.wait_until_idle(1)
        assert cluster.get("serviceaccounts", "default", "n") == own


async def test_terminating_namespace_gets_no_default_account(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n", finalizers=["example.com/one"])
        await cluster.wait_until_idle()
        await cluster.delete("namespaces", "n")
        await cluster.wait_until_idle(100)
        assert cluster.names("serviceaccounts", "n") == []


async def test_missing_default_accounts_are_created_after_a_restart(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.wait_until_idle(1)
        assert cluster.names("serviceaccounts", None) == []
    async with open_control_plane(tmp_path) as cluster:
        assert cluster.names("serviceaccounts", None) == ["default"] * 5
