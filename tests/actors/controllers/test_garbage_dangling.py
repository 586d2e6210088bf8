"""References to owners that do not exist: which objects the garbage collector deletes, and which it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from rewound.actors.messages import Object
from tests.actors.controllers.control_plane import open_control_plane, owner_reference

MISSING_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "0-0"}


async def test_dependent_of_an_owner_that_never_existed_is_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("configmaps", "d", owners=[MISSING_OWNER])
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []


async def test_dependent_of_a_deleted_owner_is_deleted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.delete("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[owner_reference(owner)])
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []


async def test_object_with_the_owners_name_and_another_uid_is_no_owner(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[{**owner_reference(owner), "uid": "another"}])
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == ["o"]


async def test_owner_in_another_namespace_does_not_count(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "elsewhere")
        owner = await cluster.create("configmaps", "o", namespace="elsewhere")
        await cluster.create("configmaps", "d", owners=[owner_reference(owner)])
        await cluster.wait_until_idle()
        assert cluster.names("configmaps", None) == ["o"]


async def test_dangling_reference_added_by_an_update_counts(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        adopted = await cluster.create("configmaps", "d")
        adopted["metadata"]["ownerReferences"] = [MISSING_OWNER]
        await cluster.replace("configmaps", adopted)
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []


async def test_existing_owner_keeps_the_dependent_which_loses_the_dangling_reference(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[MISSING_OWNER, owner_reference(owner)])
        await cluster.wait_until_idle()
        kept = cluster.get("configmaps", "d")
        assert kept is not None
        assert kept["metadata"]["ownerReferences"] == [owner_reference(owner)]


@pytest.mark.parametrize(
    "unknown",
    [
        {**MISSING_OWNER, "kind": "Unheard"},
        {**MISSING_OWNER, "apiVersion": "example.com/v1"},
        {**MISSING_OWNER, "apiVersion": "v2"},
    ],
    ids=["kind", "group", "version"],
)
@pytest.mark.parametrize("beside", [[], [MISSING_OWNER]], ids=["alone", "beside one that dangles"])
async def test_reference_to_a_kind_that_is_not_served_keeps_the_dependent(
    unknown: Object, beside: list[Object], tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("configmaps", "d", owners=[*beside, unknown])
        await cluster.wait_until_idle(1000)
        assert len(cluster.events("configmaps", "d")) == 1


async def test_cluster_scoped_object_with_a_namespaced_owner_stays(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "d", owners=[MISSING_OWNER])
        await cluster.wait_until_idle(1000)
        assert len(cluster.events("namespaces", "d")) == 1


@pytest.mark.parametrize(
    ("finalizer", "survivors"), [("orphan", ["below"]), ("foregroundDeletion", [])], ids=str
)
async def test_existing_finalizers_decide_the_propagation_policy(
    finalizer: str, survivors: list[str], tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        extra: dict[str, Any] = {"finalizers": [finalizer]}
        owner = await cluster.create("configmaps", "o")
        middle = await cluster.create("configmaps", "middle", owners=[owner_reference(owner)], **extra)
        await cluster.create("configmaps", "below", owners=[owner_reference(middle, blockOwnerDeletion=True)])
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle(1)
        assert cluster.names("configmaps") == survivors
