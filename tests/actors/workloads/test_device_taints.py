"""Pods whose devices have a NoExecute taint are evicted, and rules report it."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.versions.features import choose_release
from tests.actors.workloads.bench import Bench, open_bench

CLAIMS, SLICES = "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"
RULES = "devicetaintrules.resource.k8s.io"
NAME = "device-taint-eviction-controller"
NEWEST = choose_release("1.36")
WITH_RULES = choose_release("1.36", "DRADeviceTaintRules=true")
TAINT = {"key": "broken", "effect": "NoExecute"}
TOLERATED = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}


async def create_slice(bench: Bench, *taints: Object, generation: int = 1) -> None:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": "d0", "taints": list(taints)}],
    }
    await bench.create(SLICES, {"metadata": {"name": f"s{generation}"}, "spec": spec})


async def create_pod(bench: Bench, name: str, *tolerations: Object) -> None:
    """Create a pod with a claim that has the device d0."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    await bench.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    wanted = [{"name": "x", "resourceClaimName": name}]
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "main", "image": "web:1"}],
        "resourceClaims": wanted,
    }
    pod = await bench.create("pods", {"metadata": {"name": name}, "spec": spec})
    consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
    result: Object = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}
    if tolerations:
        result["tolerations"] = list(tolerations)
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    await bench.patch(CLAIMS, name, {"status": status}, "status")


async def taint(bench: Bench, *taints: Object) -> None:
    await bench.patch(SLICES, "s1", {"spec": {"devices": [{"name": "d0", "taints": list(taints)}]}})


async def test_a_taint_evicts_pods_that_do_not_tolerate_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await create_slice(bench, {"key": "slow", "effect": "NoSchedule"})
        await create_pod(bench, "none")
        await create_pod(bench, "some", {**TOLERATED, "tolerationSeconds": 60})
        await create_pod(bench, "all", TOLERATED)
        await create_pod(bench, "other", {**TOLERATED, "key": "else"})
        await bench.rest()
        assert len(bench.names("pods")) == 4
        await taint(bench, TAINT)
        await bench.rest(1)
        assert bench.names("pods") == ["all", "some"]
        assert bench.events("none") == [("DeviceTaintManagerEviction", "Marking for deletion")]
        await bench.rest(60)
        assert bench.names("pods") == ["all"]


async def test_a_planned_eviction_is_cancelled_with_the_taint(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await create_slice(bench, TAINT)
        await create_pod(bench, "p", {**TOLERATED, "tolerationSeconds": 60})
        await bench.rest(30)
        await create_slice(bench, generation=2)  # the newest generation has no taint
        await bench.rest(60)
        assert bench.names("pods") == ["p"]
        assert bench.events("p") == [("DeviceTaintManagerEviction", "Cancelling deletion")]


async def test_evicted_pods_say_why(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST, pods_run=False) as bench:
        await create_slice(bench, TAINT)
        await create_pod(bench, "p")
        await bench.rest()
        pod = bench.get("pods", "p")
        assert "deletionTimestamp" in pod["metadata"]
        [condition] = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert condition["reason"] == "DeletionByDeviceTaintManager"
        assert condition["message"] == "Device Taint manager: deleting due to NoExecute taint"


async def create_rule(bench: Bench, effect: str, **selector: str) -> None:
    spec = {"taint": {"key": "broken", "effect": effect}, "deviceSelector": selector}
    await bench.create(RULES, {"metadata": {"name": "rule"}, "spec": spec})


def condition(bench: Bench) -> tuple[str, str, str]:
    [found] = bench.get(RULES, "rule")["status"]["conditions"]
    assert found["type"] == "EvictionInProgress"
    return found["status"], found["reason"], found["message"]


async def test_a_rule_evicts_and_reports(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=WITH_RULES) as bench:
        await create_slice(bench)
        await create_pod(bench, "p", {**TOLERATED, "tolerationSeconds": 30})
        await bench.rest()
        await create_rule(bench, "NoExecute", driver="gpu.example.com")
        await bench.rest()
        assert condition(bench) == (
            "True",
            "PodsPendingEviction",
            "1 pod needs to be evicted in 1 namespace.",
        )
        await bench.rest(60)
        assert not bench.names("pods")
        assert condition(bench) == ("False", "Completed", "1 pod evicted since starting the controller.")


async def test_a_rule_without_effect_says_what_it_would_do(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=WITH_RULES) as bench:
        await create_slice(bench)
        await create_pod(bench, "p")
        await create_rule(bench, "None", device="d0")
        await bench.rest(60)
        assert bench.names("pods") == ["p"]
        status, reason, message = condition(bench)
        assert (status, reason) == ("False", "NoEffect")
        would = "1 pod would be evicted in 1 namespace if the effect was NoExecute. "
        assert message.startswith(f"1 published device selected. 1 allocated device selected. {would}")


async def test_rules_have_no_effect_while_their_gate_is_off(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await create_slice(bench)
        await create_pod(bench, "p")
        await create_rule(bench, "NoExecute", driver="gpu.example.com")
        await bench.rest(60)
        assert bench.names("pods") == ["p"]
    async with open_bench(tmp_path, NAME, release=WITH_RULES) as bench:
        await bench.rest(1)
        assert not bench.names("pods")
