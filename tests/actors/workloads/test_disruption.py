"""PodDisruptionBudgets: how many pods are healthy, must be, and may be evicted; and what happens to evicted pods."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.errors import EvictionRefused
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import CLUSTER
from rewound.actors.resource.evictions import Evictions
from rewound.actors.workloads import controller
from tests.actors.workloads.bench import Bench, open_bench, pod_template

BUDGETS, LABELS = "poddisruptionbudgets.policy", {"app": "web"}


def budget(name: str = "web", **spec: object) -> Object:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}


async def create_pods(bench: Bench, *names: str, owner: Object | None = None) -> None:
    for name in names:
        template = pod_template(LABELS)
        metadata = {"name": name, **template["metadata"]}
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        await bench.create("pods", {"metadata": metadata, "spec": template["spec"]})
    await bench.rest()


async def create_deployment(bench: Bench, replicas: int) -> None:
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": pod_template(LABELS)}
    await bench.create("deployments.apps", {"metadata": {"name": "web"}, "spec": spec})
    await bench.rest(1)


def counts(bench: Bench, name: str = "web") -> tuple[int, int, int, int]:
    """Pods expected, required to be healthy, healthy, and allowed to be evicted."""
    status = bench.get(BUDGETS, name)["status"]
    parts = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    expected, desired, healthy, allowed = (status[part] for part in parts)
    return expected, desired, healthy, allowed


def condition(bench: Bench) -> Object:
    (found,) = bench.get(BUDGETS, "web")["status"]["conditions"]
    return {part: value for part, value in found.items() if part != "lastTransitionTime"}


async def evict(bench: Bench, name: str) -> None:
    evictions = Evictions(CLUSTER, bench.catalog, bench.journal, bench.directory)
    context = bench.write_contexts.new("tester", "tester")
    pods = bench.catalog.storage("pods")
    await evictions.evict(pods, "default", name, DeleteOptions(), context)


async def test_counts_of_pods_with_a_controller(tmp_path: Path, autojump_clock: MockClock) -> None:
    cases: list[tuple[Object, tuple[int, int, int, int]]] = [
        ({"minAvailable": 3}, (5, 3, 5, 2)),
        ({"minAvailable": 5}, (5, 5, 5, 0)),
        ({"minAvailable": "50%"}, (5, 3, 5, 2)),
        ({"maxUnavailable": 1}, (5, 4, 5, 1)),
        ({"maxUnavailable": "30%"}, (5, 3, 5, 2)),
        ({"maxUnavailable": 9}, (5, 0, 5, 5)),
        ({}, (5, 0, 5, 5)),
    ]
    async with open_bench(tmp_path, "disruption", "deployment", "replicaset") as bench:
        await create_deployment(bench, 5)
        for spec, expected in cases:
            await bench.create(BUDGETS, budget(**spec))
            await bench.rest()
            assert counts(bench) == expected, spec
            allowed = bool(expected[3])
            assert condition(bench) == {
                "type": "DisruptionAllowed",
                "status": "True" if allowed else "False",
                "observedGeneration": 1,
                "reason": "SufficientPods" if allowed else "InsufficientPods",
                "message": "",
            }
            await bench.delete(BUDGETS, "web")


async def test_pods_without_a_controller_are_counted_but_not_expected(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "disruption") as bench:
        await bench.create(BUDGETS, budget(maxUnavailable=1))
        await bench.create(BUDGETS, budget("other", minAvailable=1))
        await bench.rest()
        assert counts(bench) == (0, 0, 0, 0) and ("NoPods", "No matching pods found") in bench.events("web")
        await create_pods(bench, "a", "b")
        assert counts(bench) == (0, 0, 2, 0) and counts(bench, "other") == (2, 1, 2, 1)
        text = 'Pod "default"/"a" matches multiple PodDisruptionBudgets.  Chose "web" arbitrarily.'
        assert ("MultiplePodDisruptionBudgets", text) in bench.events("a")
        (reported,) = (
            one
            for one in bench.all("events")
            if one["reason"] == "MultiplePodDisruptionBudgets" and one["involvedObject"]["name"] == "a"
        )
        assert reported["count"] == 2  # when it was created, and when it became ready
        await bench.patch("pods", "a", {"metadata": {"labels": {"app": "db"}}})
        await bench.rest()
        assert counts(bench, "other") == (1, 1, 1, 0)


async def test_counts_follow_pods_and_the_spec(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "disruption", "deployment", "replicaset") as bench:
        await create_deployment(bench, 3)
        await bench.create(BUDGETS, budget(maxUnavailable=1))
        await bench.rest()
        sick = bench.names("pods")[0]
        await bench.patch("pods", sick, {"metadata": {"annotations": {"sim/phase": "NeverReady"}}})
        await bench.rest()
        assert counts(bench) == (3, 2, 2, 0)
        await bench.patch(BUDGETS, "web", {"spec": {"maxUnavailable": 2}})
        await bench.rest()
        assert counts(bench) == (3, 1, 2, 1) and condition(bench)["observedGeneration"] == 2
        await bench.patch("deployments.apps", "web", {"spec": {"replicas": 6}})
        await bench.rest(1)
        assert counts(bench) == (6, 4, 5, 1)


async def test_counts_of_a_long_selector_follow_pods(tmp_path: Path, autojump_clock: MockClock) -> None:
    absent = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(200)]
    selector = {"matchLabels": LABELS, "matchExpressions": absent}
    async with open_bench(tmp_path, "disruption") as bench:
        await bench.create(BUDGETS, budget(minAvailable=1, selector=selector))
        await create_pods(bench, "a", "b")
        assert counts(bench)[2] == 2
        await bench.patch("pods", "a", {"metadata": {"labels": {"k7": "x"}}})
        await bench.rest()
        assert counts(bench)[2] == 1


async def test_among_many_pods_a_budget_is_brought_up_to_date_ten_times_a_second(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "MANY", 2)
    async with open_bench(tmp_path, "disruption") as bench:
        await create_pods(bench, "a", "b")
        await bench.create(BUDGETS, budget(minAvailable=1))
        await bench.rest(1)
        await bench.delete("pods", "a")
        await bench.rest()
        await create_pods(bench, "c", "d")
        assert counts(bench) != (3, 1, 3, 2)
        await bench.rest(0.2)
        assert counts(bench) == (3, 1, 3, 2)


async def test_controllers_without_a_scale_allow_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "disruption", "job") as bench:
        template = pod_template(LABELS)
        template["spec"]["restartPolicy"] = "Never"
        await bench.create("jobs.batch", {"metadata": {"name": "work"}, "spec": {"template": template}})
        await bench.rest()
        await bench.create(BUDGETS, budget(maxUnavailable=1))
        await bench.rest()
        text = "jobs.batch does not implement the scale subresource"
        assert condition(bench) == {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "SyncFailed",
            "message": text,
        }
        message = f"Failed to calculate the number of expected pods: {text}"
        assert ("CalculateExpectedPodCountFailed", message) in bench.events("web")
        await bench.patch(BUDGETS, "web", {"spec": {"maxUnavailable": None, "minAvailable": 1}})
        await bench.rest()
        assert counts(bench) == (1, 1, 1, 0)


@pytest.mark.parametrize(
    ("version", "kind", "text"),
    [
        ("apps/v1", "StatefulSet", 'found no controllers for pod "a"'),
        ("boats/v1", "Boat", 'no matches for kind "Boat" in version "boats/v1"'),
    ],
)
async def test_controllers_that_are_not_there_allow_nothing(
    tmp_path: Path, autojump_clock: MockClock, version: str, kind: str, text: str
) -> None:
    async with open_bench(tmp_path, "disruption") as bench:
        owner = {"apiVersion": version, "kind": kind, "name": "x", "uid": "u", "controller": True}
        await create_pods(bench, "a", owner=owner)
        await bench.create(BUDGETS, budget(minAvailable="50%"))
        await bench.rest()
        assert condition(bench)["message"] == text


async def test_an_evicted_pod_counts_as_gone_until_it_is_or_two_minutes_have_passed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "disruption") as bench:
        await create_pods(bench, "a", "b", "c")
        await bench.create(BUDGETS, budget(minAvailable=2))
        await bench.rest()
        await evict(bench, "a")
        with pytest.raises(EvictionRefused):
            await evict(bench, "b")
        await bench.rest()
        assert counts(bench) == (2, 2, 2, 0) and "disruptedPods" not in bench.get(BUDGETS, "web")["status"]
        await create_pods(bench, "d")
        assert counts(bench) == (3, 2, 3, 1)
        status = {**bench.get(BUDGETS, "web")["status"], "disruptionsAllowed": 0}
        status["disruptedPods"] = {"d": seconds_text(bench.clock.now())}
        await bench.patch(BUDGETS, "web", {"status": status}, "status")
        await bench.rest(119)
        assert counts(bench) == (3, 2, 2, 0)
        await bench.rest(2)
        assert counts(bench) == (3, 2, 3, 1)
        text = "Pod was expected by PDB default/default to be deleted but it wasn't"
        assert bench.events("d") == [("NotDeleted", text)]


async def test_an_announced_end_that_did_not_come_is_taken_back(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "disruption") as bench:
        await create_pods(bench, "a")
        pod = bench.get("pods", "a")
        since = pod["status"]["conditions"][0]["lastTransitionTime"]
        announced = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "Why",
            "lastTransitionTime": since,
        }
        conditions = [*pod["status"]["conditions"], announced]
        await bench.patch("pods", "a", {"status": {"conditions": conditions}}, "status")
        for seconds, expected in ((110, "True"), (11, "False")):
            await bench.rest(seconds)
            found = bench.get("pods", "a")["status"]["conditions"]
            (one,) = (each for each in found if each["type"] == "DisruptionTarget")
            assert one["status"] == expected
        assert "reason" not in one
