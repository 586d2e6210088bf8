"""The token cleaner deletes Secrets of bootstrap tokens when they expire, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from rewound.actors.controllers.client import Client
from tests.actors.bootstrap_secrets import create_token
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

IN_AN_HOUR = "2023-11-14T23:13:20Z"  # of the clock's start
NAME = "bootstrap-token-abc123"


def exists(cluster: ControlPlane, name: str = NAME, namespace: str = "cluster-system") -> bool:
    return cluster.get("secrets", name, namespace) is not None


async def test_secret_is_deleted_when_it_expires(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster, expiration=IN_AN_HOUR)
        await cluster.wait_until_idle(3595)
        assert exists(cluster)
        await cluster.wait_until_idle(10)
        assert not exists(cluster)


async def test_expired_and_unreadable_secrets_are_deleted_at_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster, expiration="2020-01-01T00:00:00Z")
        await create_token(cluster, name="bootstrap-token-other", expiration="tomorrow")
        await cluster.wait_until_idle(1)
        assert not exists(cluster)
        assert not exists(cluster, "bootstrap-token-other")


async def test_other_secrets_stay(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster)
        await create_token(cluster, namespace="default", expiration="2020-01-01T00:00:00Z")
        await create_token(cluster, name="plain", kind="Opaque", expiration="2020-01-01T00:00:00Z")
        await cluster.wait_until_idle(86400)
        assert exists(cluster) and exists(cluster, namespace="default") and exists(cluster, "plain")


async def test_postponed_expiration_counts(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster, expiration=IN_AN_HOUR)
        stored = cluster.get("secrets", NAME, "cluster-system")
        assert stored is not None
        del stored["data"]["expiration"]
        await cluster.replace("secrets", stored)
        await cluster.wait_until_idle(7200)
        assert exists(cluster)


async def test_secret_that_changes_before_it_is_deleted_stays(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        delete = Client.delete

        async def prolong_first(*given: Any, **more: Any) -> Any:
            stored = cluster.get("secrets", NAME, "cluster-system")
            assert stored is not None
            if stored["data"].pop("expiration", None):
                await cluster.replace("secrets", stored)
            return await delete(*given, **more)

        monkeypatch.setattr(Client, "delete", prolong_first)
        await create_token(cluster, expiration="2020-01-01T00:00:00Z")
        await cluster.wait_until_idle(3600)
        assert exists(cluster)


async def test_secrets_that_expired_while_the_server_was_down_are_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_token(cluster, expiration="2020-01-01T00:00:00Z")
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle(1)
        assert not exists(cluster)


async def test_secret_that_a_finalizer_keeps_is_deleted_only_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster, expiration="2020-01-01T00:00:00Z", finalizers=["example.com/keep"])
        await cluster.wait_until_idle(3600)
        assert cluster.get("secrets", NAME, "cluster-system")["metadata"]["deletionTimestamp"]
        assert len(cluster.events("secrets", NAME)) == 2  # created, being deleted
