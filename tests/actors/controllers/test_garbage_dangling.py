"""References to owners that are not there: what is collected, and what is left alone on doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from actors.messages import Object
from tests.actors.controllers.world import reference, world

NOBODY = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "0-0"}


async def test_an_owner_that_never_was(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("configmaps", "d", owners=[NOBODY])
        await cluster.settle()
        assert cluster.names("configmaps") == []


async def test_an_owner_that_is_gone_already(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.delete("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[reference(owner)])
        await cluster.settle()
        assert cluster.names("configmaps") == []


async def test_a_namesake_with_another_uid_is_no_owner(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[{**reference(owner), "uid": "another"}])
        await cluster.settle()
        assert cluster.names("configmaps") == ["o"]


async def test_an_owner_in_another_namespace_is_not_found(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("namespaces", "elsewhere")
        owner = await cluster.create("configmaps", "o", namespace="elsewhere")
        await cluster.create("configmaps", "d", owners=[reference(owner)])
        await cluster.settle()
        assert cluster.names("configmaps", None) == ["o"]


async def test_a_reference_added_later_counts_too(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        adopted = await cluster.create("configmaps", "d")
        adopted["metadata"]["ownerReferences"] = [NOBODY]
        await cluster.replace("configmaps", adopted)
        await cluster.settle()
        assert cluster.names("configmaps") == []


async def test_a_living_owner_keeps_it_and_the_dangling_reference_goes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[NOBODY, reference(owner)])
        await cluster.settle()
        kept = cluster.get("configmaps", "d")
        assert kept is not None
        assert kept["metadata"]["ownerReferences"] == [reference(owner)]


@pytest.mark.parametrize(
    "unknown",
    [
        {**NOBODY, "kind": "Unheard"},
        {**NOBODY, "apiVersion": "example.com/v1"},
        {**NOBODY, "apiVersion": "v2"},
    ],
    ids=["kind", "group", "version"],
)
@pytest.mark.parametrize("beside", [[], [NOBODY]], ids=["alone", "beside one that dangles"])
async def test_kinds_that_are_not_served_leave_everything_as_it_is(
    unknown: Object, beside: list[Object], tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("configmaps", "d", owners=[*beside, unknown])
        await cluster.settle(1000)
        assert len(cluster.events("configmaps", "d")) == 1


async def test_an_object_of_the_cluster_with_a_namespaced_owner_is_left_alone(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("namespaces", "d", owners=[NOBODY])
        await cluster.settle(1000)
        assert len(cluster.events("namespaces", "d")) == 1


@pytest.mark.parametrize(
    ("finalizer", "survivors"), [("orphan", ["below"]), ("foregroundDeletion", [])], ids=str
)
async def test_the_finalizers_it_has_decide_how_it_goes(
    finalizer: str, survivors: list[str], tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        extra: dict[str, Any] = {"finalizers": [finalizer]}
        owner = await cluster.create("configmaps", "o")
        middle = await cluster.create("configmaps", "middle", owners=[reference(owner)], **extra)
        await cluster.create("configmaps", "below", owners=[reference(middle, blockOwnerDeletion=True)])
        await cluster.delete("configmaps", "o")
        await cluster.settle(1)
        assert cluster.names("configmaps") == survivors
