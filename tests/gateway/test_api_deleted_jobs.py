"""Jobs leave their pods behind unless told otherwise: whoever says nothing about that is told so."""

from __future__ import annotations

import pytest

from tests.gateway.api import served

JOBS = "/apis/batch/v1/namespaces/default/jobs"
CONTAINERS = [{"name": "c", "image": "i"}]
JOB = {
    "metadata": {"name": "a"},
    "spec": {"template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}},
}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", True),
        ("?gracePeriodSeconds=0", True),
        ("?propagationPolicy=Background", False),
        ("?propagationPolicy=Orphan", False),
        ("?orphanDependents=false", False),
    ],
)
async def test_what_becomes_of_the_pods(query: str, told: bool) -> None:
    async with served() as api:
        for path in (f"{JOBS}/a", JOBS):
            assert (await api.ask("POST", JOBS, JOB)).status == 201
            answer = await api.ask("DELETE", path + query)
            assert answer.status == 200
            assert ["child pods are preserved" in text for text in answer.warnings] == told * [True]


async def test_a_missing_job_is_told_of_too() -> None:
    async with served() as api:
        answer = await api.ask("DELETE", f"{JOBS}/none")
        assert (answer.status, len(answer.warnings)) == (404, 1)
