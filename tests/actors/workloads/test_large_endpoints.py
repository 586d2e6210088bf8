"""What Endpoints, a Service or the status of a Job list is walked in steps."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.versions.features import choose_release
from tests.actors.workloads.bench import Bench, open_bench, pod_template
from tests.counted_steps import Steps, counted_steps

LONGEST = 30_000  # lines of Python; hashing these ports takes 900,000
PORTS = 2000
INTERVALS = 20_000
SLICES = "endpointslices.discovery.k8s.io"


def service(name: str, ports: int, **spec: object) -> Object:
    listed = [{"name": f"p{n}", "port": n + 1, "targetPort": f"t{n % 2}"} for n in range(ports)]
    return {"metadata": {"name": name}, "spec": {"ports": listed, **spec}}


async def until_sliced(bench: Bench, count: int) -> None:
    await bench.until(lambda: any(len(one["ports"] or ()) == count for one in bench.all(SLICES)))


def is_short(steps: Steps) -> bool:
    return steps.longest.lines < LONGEST


async def test_no_step_grows_with_the_ports_of_endpoints(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "endpointslicemirroring", release=choose_release("1.36")) as bench:
        for name, count in (("small", 1), ("large", PORTS)):  # the first compiles what is compiled once
            await bench.create("services", service(name, 1))
            ports = [{"name": f"p{n}", "port": n + 1} for n in range(count)]
            subset = {"addresses": [{"ip": "10.0.0.1"}], "ports": ports}
            with counted_steps() as steps:
                await bench.create("endpoints", {"metadata": {"name": name}, "subsets": [subset]})
                await until_sliced(bench, count)
        assert is_short(steps), steps.longest


async def test_no_step_grows_with_the_ports_of_a_service(tmp_path: Path, autojump_clock: MockClock) -> None:
    named = [{"name": f"t{n}", "containerPort": 8000 + n} for n in range(2)]
    pod = pod_template({"app": "web"})
    pod["metadata"]["name"] = "web"
    pod["spec"]["containers"][0]["ports"] = named
    running = {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    addressed = {"ipFamilies": ["IPv4"], "publishNotReadyAddresses": True}
    async with open_bench(tmp_path, "endpoint", "endpointslice", pods_run=False) as bench:
        await bench.create("pods", pod)
        await bench.patch("pods", "web", {"status": running}, "status")
        for name, count in (("small", 1), ("large", PORTS)):
            with counted_steps() as steps:
                await bench.create("services", service(name, count, selector={"app": "web"}, **addressed))
                await until_sliced(bench, count)
        assert is_short(steps), steps.longest


async def test_no_step_grows_with_the_intervals_of_a_job(tmp_path: Path, autojump_clock: MockClock) -> None:
    template = pod_template({"app": "job"}, phase="Hold")
    template["spec"]["restartPolicy"] = "Never"
    spec = {"completionMode": "Indexed", "completions": 2 * INTERVALS, "parallelism": 1, "template": template}
    status = {"completedIndexes": ",".join(str(2 * number) for number in range(INTERVALS))}
    async with open_bench(tmp_path, "job") as bench:
        await bench.create("jobs.batch", {"metadata": {"name": "large"}, "spec": spec})
        await bench.rest(5)
        with counted_steps() as steps:
            await bench.patch("jobs.batch", "large", {"status": status}, "status")
            await bench.until(
                lambda: bench.get("jobs.batch", "large")["status"].get("succeeded") == INTERVALS
            )
        assert is_short(steps), steps.longest
