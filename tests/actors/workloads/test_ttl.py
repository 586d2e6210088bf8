"""TTLs: finished Jobs are deleted after theirs, and nodes are annotated according to their number."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.workloads.bench import Bench, open_bench, pod_template

JOBS, ANNOTATION = "jobs.batch", "node.alpha.kubernetes.io/ttl"


async def create_job(bench: Bench, name: str, phase: str, **spec: object) -> None:
    template = pod_template({}, phase=phase)
    template["spec"]["restartPolicy"] = "Never"
    new = {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": template, **spec}}
    await bench.create(JOBS, new)


async def test_finished_jobs_go_with_their_pods_when_their_time_is_over(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job", "ttl-after-finished", "garbagecollector") as bench:
        await create_job(bench, "at-once", "Succeeded", ttlSecondsAfterFinished=0)
        await create_job(bench, "later", "Failed", ttlSecondsAfterFinished=60)
        await create_job(bench, "never", "Succeeded")
        await create_job(bench, "runs", "Running", ttlSecondsAfterFinished=0)
        await bench.rest(50)
        assert bench.names(JOBS) == ["later", "never", "runs"]
        await bench.rest(11)
        assert bench.names(JOBS) == ["never", "runs"] and len(bench.names("pods")) == 2
        await bench.patch(JOBS, "never", {"spec": {"ttlSecondsAfterFinished": 10}})
        await bench.rest(1)
        assert bench.names(JOBS) == ["runs"]


async def test_a_restart_remembers_when_a_job_ends(tmp_path: Path, autojump_clock: MockClock) -> None:
    names = ("job", "ttl-after-finished", "garbagecollector")
    async with open_bench(tmp_path, *names) as bench:
        await create_job(bench, "work", "Succeeded", ttlSecondsAfterFinished=60)
        await bench.rest(30)
    async with open_bench(tmp_path, *names) as bench:
        await bench.rest(20)
        assert bench.names(JOBS) == ["work"]
        await bench.rest(20)
        assert not bench.names(JOBS)


async def test_nodes_get_an_annotation_by_their_number(tmp_path: Path, autojump_clock: MockClock) -> None:
    def ttl_of(name: str) -> str:
        value: str = bench.get("nodes", name)["metadata"]["annotations"][ANNOTATION]
        return value

    async with open_bench(tmp_path, "ttl", pods_run=False) as bench:
        await bench.create("nodes", {"metadata": {"name": "n0"}})
        await bench.rest()
        for number in range(1, 101):
            await bench.create("nodes", {"metadata": {"name": f"n{number}"}})
        await bench.rest()
        assert ttl_of("n0") == "0" and ttl_of("n100") == "15"
        for number in range(1, 12):
            await bench.delete("nodes", f"n{number}")
        await bench.patch("nodes", "n0", {"metadata": {"labels": {"a": "b"}}})
        await bench.rest()
        assert ttl_of("n0") == "15"
        await bench.delete("nodes", "n100")
        await bench.patch("nodes", "n0", {"metadata": {"labels": {"a": "c"}}})
        await bench.rest()
        assert ttl_of("n0") == "0"
