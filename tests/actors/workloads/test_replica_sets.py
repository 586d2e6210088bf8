"""ReplicaSets and ReplicationControllers keep the desired number of pods, and count them."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.workloads.controller import may_match
from tests.actors.workloads.bench import Bench, open_bench, pod_template

SETS, CONTROLLERS = "replicasets.apps", "replicationcontrollers"


def replica_set(name: str, replicas: int, **spec: object) -> Object:
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": pod_template(labels),
            **spec,
        },
    }


def bare_pod(name: str, labels: dict[str, str]) -> Object:
    template = pod_template(labels)
    return {"metadata": {"name": name, **template["metadata"]}, "spec": template["spec"]}


def controllers_of(bench: Bench) -> dict[str, list[str]]:
    """The names of each pod's controllers."""
    return {
        one["metadata"]["name"]: [owner["name"] for owner in one["metadata"].get("ownerReferences", ())]
        for one in bench.all("pods")
    }


@pytest.mark.parametrize("type_name", [SETS, CONTROLLERS])
async def test_pods_follow_the_number_of_replicas(
    tmp_path: Path, autojump_clock: MockClock, type_name: str
) -> None:
    async with open_bench(tmp_path, "replicaset", "replicationcontroller") as bench:
        new = replica_set("web", 3)
        if type_name == CONTROLLERS:
            new["spec"]["selector"] = {"app": "web"}
        await bench.create(type_name, new)
        await bench.rest()
        status = bench.get(type_name, "web")["status"]
        assert status == {
            "replicas": 3,
            "fullyLabeledReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "observedGeneration": 1,
        }
        kept = bench.names("pods")
        await bench.patch(type_name, "web", {"spec": {"replicas": 1}})
        await bench.rest()
        assert len(bench.names("pods")) == 1
        gone = set(kept) - set(bench.names("pods"))
        assert bench.get(type_name, "web")["status"]["replicas"] == 1
        deleted = {message for reason, message in bench.events("web") if reason == "SuccessfulDelete"}
        assert deleted == {f"Deleted pod: {name}" for name in gone}


async def test_a_finished_or_deleted_pod_gets_a_successor(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create(SETS, replica_set("web", 2))
        await bench.rest()
        first, second = bench.names("pods")
        await bench.patch("pods", first, {"metadata": {"annotations": {"sim/phase": "Failed"}}})
        await bench.delete("pods", second)
        await bench.rest()
        assert len(bench.names("pods")) == 3 and first in bench.names("pods")
        assert bench.get(SETS, "web")["status"]["readyReplicas"] == 2


async def test_matching_pods_are_adopted_and_others_released(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create("pods", bare_pod("before", {"app": "web"}))
        await bench.create(SETS, replica_set("web", 2))
        await bench.rest()
        assert controllers_of(bench)["before"] == ["web"] and len(bench.names("pods")) == 2
        await bench.create("pods", bare_pod("after", {"app": "web", "more": "x"}))
        await bench.rest()
        assert len(bench.names("pods")) == 2  # it was one too many
        await bench.patch("pods", "before", {"metadata": {"labels": {"app": "other"}}})
        await bench.rest()
        found = controllers_of(bench)
        assert found.pop("before") == [] and list(found.values()) == [["web"], ["web"]]
        await bench.patch("pods", "before", {"metadata": {"labels": {"app": "web"}}})
        await bench.rest()
        assert set(map(tuple, controllers_of(bench).values())) == {("web",)}
        assert bench.get(SETS, "web")["status"]["replicas"] == 2


async def test_labels_of_the_template_are_counted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create(SETS, replica_set("web", 2))
        await bench.rest()
        labels = {"app": "web", "tier": "front"}
        await bench.patch(SETS, "web", {"spec": {"template": {"metadata": {"labels": labels}}}})
        await bench.rest()
        status = bench.get(SETS, "web")["status"]
        assert (status["replicas"], status.get("fullyLabeledReplicas")) == (2, None)
        await bench.delete("pods", bench.names("pods")[0])
        await bench.rest()
        assert bench.get(SETS, "web")["status"]["fullyLabeledReplicas"] == 1


async def test_pods_are_available_after_their_time(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create(SETS, replica_set("web", 2, minReadySeconds=30))
        await bench.rest(29)
        status = bench.get(SETS, "web")["status"]
        assert status["readyReplicas"] == 2 and "availableReplicas" not in status
        await bench.rest(2)
        assert bench.get(SETS, "web")["status"]["availableReplicas"] == 2


async def test_a_refused_pod_is_a_condition_until_it_is_there(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "replicaset", "resourcequota") as bench:
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
        await bench.create("resourcequotas", quota)
        await bench.create(SETS, replica_set("web", 8))
        await bench.rest(1)
        assert len(bench.names("pods")) == 2
        (condition,) = bench.get(SETS, "web")["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("ReplicaFailure", "True")
        assert condition["reason"] == "FailedCreate" and "exceeded quota: few" in condition["message"]
        refused = [message for reason, message in bench.events("web") if reason == "FailedCreate"]
        assert all("Error creating: pods" in message for message in refused) and refused
        await bench.patch("resourcequotas", "few", {"spec": {"hard": {"pods": "10"}}})
        await bench.rest(61)
        assert len(bench.names("pods")) == 8
        assert "conditions" not in bench.get(SETS, "web")["status"]


async def test_a_refusal_stops_the_next_larger_batch(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create("resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
        bench.directory.commands.clear()
        await bench.create(SETS, replica_set("web", 100))
        await bench.rest()
        tried = bench.directory.commands.count(("replicaset-controller", "pods"))
        assert 1 <= tried <= 2  # a pass, and one more for the condition that it wrote


async def test_nothing_is_created_while_the_owner_is_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "replicaset", "garbagecollector") as bench:
        await bench.create(SETS, replica_set("web", 3))
        await bench.rest()
        for name in bench.names("pods"):
            kept = {"metadata": {"annotations": {"sim/hold-termination": "true"}}}
            await bench.patch("pods", name, kept)
        await bench.delete(SETS, "web", "Foreground")
        await bench.rest()
        pods = bench.all("pods")
        assert len(pods) == 3 and all("deletionTimestamp" in one["metadata"] for one in pods)
        assert bench.get(SETS, "web")["status"]["replicas"] == 0
        for name in bench.names("pods"):
            await bench.patch("pods", name, {"metadata": {"annotations": {"sim/hold-termination": None}}})
        await bench.rest()
        assert bench.names("pods") == bench.names(SETS) == []


async def test_a_restart_finds_what_changed_meanwhile(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create(SETS, replica_set("web", 3))
        await bench.rest()
    async with open_bench(tmp_path, pods_run=False) as bench:
        await bench.patch(SETS, "web", {"spec": {"replicas": 4}})
        await bench.create("pods", bare_pod("orphan", {"app": "web"}))
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.rest()
        assert len(bench.names("pods")) == 4 and controllers_of(bench)["orphan"] == ["web"]
        assert bench.get(SETS, "web")["status"]["readyReplicas"] == 4


async def test_a_namespace_that_ends_is_no_failure(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create("namespaces", {"metadata": {"name": "ending"}})
        await bench.create(SETS, replica_set("web", 1), namespace="ending")
        await bench.rest()
        await bench.delete("namespaces", "ending")
        await bench.patch(SETS, "web", {"spec": {"replicas": 2}}, namespace="ending")
        await bench.rest(1)
        stored = bench.get(SETS, "web", "ending")["status"]
        assert stored["replicas"] == 1 and "conditions" not in stored


async def test_at_rest_nothing_is_written(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create(SETS, replica_set("web", 5))
        await bench.rest()
        bench.directory.commands.clear()
        await bench.rest(1800)
        assert bench.directory.commands == []


async def test_many_pods_that_change_share_a_status(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create(SETS, replica_set("web", 220))
        await bench.rest()
        assert bench.get(SETS, "web")["status"]["availableReplicas"] == 220
        written = bench.directory.commands.count(("replicaset-controller", "replicasets"))
        assert written < 20
        held = {"metadata": {"annotations": {"sim/phase": "NeverReady"}}}
        for name in bench.names("pods")[:3]:
            await bench.patch("pods", name, held)
        await bench.rest(1)
        assert bench.get(SETS, "web")["status"]["readyReplicas"] == 217


async def test_listeners_leave_long_selectors_to_the_pass_which_adopts_what_they_match(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    absent = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(200)]
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": absent}
    assert may_match(selector, {"app": "other"})
    assert not may_match({"matchLabels": {"app": "web"}}, {"app": "other"})
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create(SETS, replica_set("web", 1, selector=selector))
        await bench.rest()
        await bench.create("pods", bare_pod("matching", {"app": "web"}))
        await bench.create("pods", bare_pod("other", {"app": "web", "k7": "x"}))
        await bench.rest()
        assert controllers_of(bench)["other"] == []
        assert sorted(controllers_of(bench).values()) == [[], ["web"]]
