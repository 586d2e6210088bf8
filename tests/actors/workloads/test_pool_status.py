"""A ResourcePoolStatusRequest gets the numbers of devices in the pools of a driver, once, and is deleted later."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.versions.features import choose_release
from tests.actors.workloads.bench import Bench, open_bench

REQUESTS = "resourcepoolstatusrequests.resource.k8s.io"
CLAIMS, SLICES = "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"
NAME = "resourcepoolstatusrequest-controller"
RELEASE = choose_release("1.36", "DRAResourcePoolStatus=true")
GPU = "gpu.example.com"


async def create_slice(
    bench: Bench, name: str, pool: str, devices: int, *, count: int = 1, generation: int = 1, node: str = "n1"
) -> None:
    spec: Object = {
        "driver": GPU,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": [{"name": f"{name}-{number}"} for number in range(devices)],
        "nodeName": node,
    }
    await bench.create(SLICES, {"metadata": {"name": name}, "spec": spec})


async def ask(bench: Bench, name: str = "ask", **spec: object) -> None:
    await bench.create(REQUESTS, {"metadata": {"name": name}, "spec": {"driver": GPU, **spec}})
    await bench.rest(1)


def named(bench: Bench) -> list[str]:
    return sorted(one["metadata"]["name"] for one in bench.all(REQUESTS, ""))


async def allocate(bench: Bench, name: str, pool: str) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    await bench.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    result = {"request": "r", "driver": GPU, "pool": pool, "device": "d"}
    status = {"allocation": {"devices": {"results": [result]}}}
    await bench.patch(CLAIMS, name, {"status": status}, "status")


async def test_request_gets_the_numbers_of_each_pool(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=RELEASE) as bench:
        await create_slice(bench, "old", "a", 7)
        await create_slice(bench, "a1", "a", 3, count=2, generation=2)
        await create_slice(bench, "a2", "a", 1, count=2, generation=2)
        await create_slice(bench, "b1", "b", 1, count=2)
        await create_slice(bench, "b2", "b", 1, count=2, node="n2")
        for name in ("one", "two", "three"):
            await allocate(bench, name, "b")
        await ask(bench)
        status = bench.get(REQUESTS, "ask")["status"]
        assert status["poolCount"] == 2
        first, second = status["pools"]
        assert first == {
            "driver": GPU,
            "poolName": "a",
            "generation": 2,
            "resourceSliceCount": 2,
            "totalDevices": 4,
            "allocatedDevices": 0,
            "availableDevices": 4,
            "unavailableDevices": 0,
            "nodeName": "n1",
        }
        # Slices of two nodes; more devices are allocated than there are.
        assert (second["poolName"], second["allocatedDevices"], second["availableDevices"]) == ("b", 3, 0)
        assert "nodeName" not in second
        (condition,) = status["conditions"]
        assert (condition["type"], condition["reason"]) == ("Complete", "CalculationComplete")
        assert condition["message"] == "Calculated status for 2 pools"
        await create_slice(bench, "c1", "c", 1)
        await bench.rest(60)
        assert bench.get(REQUESTS, "ask")["status"] == status


async def test_request_may_name_a_pool_and_a_limit(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=RELEASE) as bench:
        for pool in "abc":
            await create_slice(bench, pool, pool, 1)
        await ask(bench, "one", poolName="b")
        await ask(bench, "some", limit=2)
        await ask(bench, "none", poolName="missing")
        found = {one: bench.get(REQUESTS, one)["status"] for one in ("one", "some", "none")}
        pools = {
            name: [pool["poolName"] for pool in status.get("pools") or ()] for name, status in found.items()
        }
        assert pools == {"one": ["b"], "some": ["a", "b"], "none": []}
        assert [status["poolCount"] for status in found.values()] == [1, 3, 0]


async def test_request_about_an_incomplete_pool_waits(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=RELEASE) as bench:
        await create_slice(bench, "a1", "a", 1, count=2)
        await ask(bench)
        assert "status" not in bench.get(REQUESTS, "ask")
        await create_slice(bench, "a2", "a", 1, count=2)
        await bench.rest(60)
        assert "status" not in bench.get(
            REQUESTS, "ask"
        )  # as in Kubernetes: a change of the request is awaited
        await bench.patch(REQUESTS, "ask", {"metadata": {"labels": {"again": "true"}}})
        await bench.rest(1)
        assert bench.get(REQUESTS, "ask")["status"]["pools"][0]["totalDevices"] == 2


async def test_requests_expire(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=RELEASE) as bench:
        await create_slice(bench, "a1", "a", 1, count=2)
        await ask(bench, "pending")
        await ask(bench, "answered", poolName="b")
        await bench.rest(3590)
        assert named(bench) == ["answered", "pending"]
        await bench.rest(20)
        assert named(bench) == ["pending"]
        await bench.rest(23 * 3600 + 20)
        assert named(bench) == []


async def test_without_the_gate_nobody_answers(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=choose_release("1.36")) as bench:
        await ask(bench)
        await bench.rest(60)
        assert "status" not in bench.get(REQUESTS, "ask")
