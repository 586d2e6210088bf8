"""Deleting a batch/v1 Job orphans its dependents by default, and deletes them with the Background policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from tests.actors.controllers.control_plane import ControlPlane, open_control_plane, owner_reference


async def job_with_dependent(cluster: ControlPlane) -> None:
    definition = cluster.catalog.storage("jobs.batch")
    pods = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    document = {"metadata": {"name": "j"}, "spec": {"template": pods}}
    made = definition.schema.decode_object(document).object
    await cluster.client.create(definition, "default", made)
    owner = cluster.get("jobs.batch", "j")
    assert owner is not None
    owned = {**owner_reference(owner, "Job"), "apiVersion": "batch/v1"}
    await cluster.create("configmaps", "d", owners=[owned])


@pytest.mark.parametrize(("policy", "left"), [("", ["d"]), ("Orphan", ["d"]), ("Background", [])])
async def test_default_policy_of_a_job_orphans_its_dependents(
    tmp_path: Path, autojump_clock: MockClock, policy: str, left: list[str]
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await job_with_dependent(cluster)
        await cluster.delete("jobs.batch", "j", policy)
        await cluster.wait_until_idle(10)
        assert cluster.names("jobs.batch") == []
        assert cluster.names("configmaps") == left
