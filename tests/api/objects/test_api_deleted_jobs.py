"""Deleting a Job orphans its pods by default, with a warning if the client chose no propagation policy."""

from __future__ import annotations

import pytest

from tests.gateway.api import served
from tests.gateway.shared_server import shared

JOBS = "/apis/batch/v1/namespaces/default/jobs"
CONTAINERS = [{"name": "c", "image": "i"}]
JOB = {
    "metadata": {"name": "a"},
    "spec": {"template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}},
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", True),
        ("?gracePeriodSeconds=0", True),
        ("?propagationPolicy=Background", False),
        ("?propagationPolicy=Orphan", False),
        ("?orphanDependents=false", False),
    ],
)
async def test_default_policy_orphans_pods_with_a_warning(query: str, expected: bool) -> None:
    async with served() as api:
        for path in (f"{JOBS}/a", JOBS):
            assert (await api.ask("POST", JOBS, JOB)).status == 201
            response = await api.ask("DELETE", path + query)
            assert response.status == 200
            assert ["child pods are preserved" in text for text in response.warnings] == expected * [True]


async def test_missing_job_gets_the_warning_too() -> None:
    async with shared() as api:
        response = await api.ask("DELETE", f"{JOBS}/none")
        assert (response.status, len(response.warnings)) == (404, 1)
