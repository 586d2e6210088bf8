"""What a job has made stays when it is deleted without a word about that, and goes when one is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from tests.actors.controllers.world import Cluster, reference, world


async def job_with_dependent(cluster: Cluster) -> None:
    definition = cluster.catalog.storage("jobs.batch")
    pods = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    document = {"metadata": {"name": "j"}, "spec": {"template": pods}}
    made = definition.schema.decode_object(document).object
    await cluster.client.create(definition, "default", made)
    owner = cluster.get("jobs.batch", "j")
    assert owner is not None
    owned = {**reference(owner, "Job"), "apiVersion": "batch/v1"}
    await cluster.create("configmaps", "d", owners=[owned])


@pytest.mark.parametrize(("policy", "left"), [("", ["d"]), ("Orphan", ["d"]), ("Background", [])])
async def test_dependents_of_a_job(
    tmp_path: Path, autojump_clock: MockClock, policy: str, left: list[str]
) -> None:
    async with world(tmp_path) as cluster:
        await job_with_dependent(cluster)
        await cluster.delete("jobs.batch", "j", policy)
        await cluster.settle(10)
        assert cluster.names("jobs.batch") == []
        assert cluster.names("configmaps") == left
