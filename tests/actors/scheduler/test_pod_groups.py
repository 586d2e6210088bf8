"""Pods of a gang get their nodes together, or none does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rewound.actors.errors import Forbidden
from rewound.actors.messages import Object
from rewound.actors.versions.features import Release, choose_release
from tests.actors.scheduler.scheduling import add_nodes, assigned, end, node, open_scheduling, pod, refusal
from tests.actors.scheduler.test_preemption import add_classes, run
from tests.actors.workloads.bench import Bench, open_bench

GROUPS, OLD_WORKLOADS = "podgroups.scheduling.k8s.io", "workloads.v1alpha1.scheduling.k8s.io"
WORKLOADS = "workloads.scheduling.k8s.io"
GATES = "GenericWorkload=true,GangScheduling=true"
NEWEST = choose_release("1.36", GATES)


def group(name: str, least: int = 0) -> Object:
    policy = {"gang": {"minCount": least}} if least else {"basic": {}}
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}


def member(name: str, of: str, cpu: str = "1", **spec: object) -> Object:
    return pod(name, cpu=cpu, schedulingGroup={"podGroupName": of}, **spec)


def condition(bench: Bench, name: str) -> tuple[str, str, str] | None:
    found = bench.get(GROUPS, name).get("status", {}).get("conditions", ())
    return next(((one["status"], one["reason"], one["message"]) for one in found), None)


@asynccontextmanager
async def opened(path: Path, *nodes: Object, release: Release = NEWEST) -> AsyncIterator[Bench]:
    async with open_scheduling(path, release=release) as bench:
        await add_nodes(bench, *nodes)
        yield bench


async def test_gang_that_fits_is_bound_once_all_its_pods_exist(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with opened(tmp_path, node("a", cpu="2"), node("b", cpu="1")) as bench:
        await bench.create("pods", member("first", "gang"))
        await bench.rest(60)
        assert assigned(bench) == {"first": ""}  # its group does not exist
        await bench.create(GROUPS, group("gang", 3))
        await bench.create("pods", member("second", "gang"))
        await bench.rest(60)
        assert not any(assigned(bench).values())
        assert "conditions" not in bench.get("pods", "first")["status"]  # never tried
        await bench.create("pods", member("third", "gang"))
        await bench.rest(2)
        assert sorted(assigned(bench).values()) == ["a", "a", "b"]
        assert condition(bench, "gang") == ("True", "Scheduled", "")


async def test_gang_that_does_not_fit_leaves_room_for_others(tmp_path: Path, autojump_clock: object) -> None:
    async with opened(tmp_path, node("a", cpu="2")) as bench:
        await bench.create(GROUPS, group("gang", 3))
        for name in ("first", "second", "third"):
            await bench.create("pods", member(name, "gang"))
        await bench.rest(2)
        assert not any(assigned(bench).values())
        assert condition(bench, "gang") == ("False", "Unschedulable", "pod group is unschedulable")
        waits = (
            "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
            "one or more plugins asked to wait and no plugin rejected pod"
        )
        assert [refusal(bench, name) for name in ("first", "second")] == [waits, waits]
        assert refusal(bench, "third").startswith("0/1 nodes are available: 1 Insufficient cpu. ")
        await bench.create("pods", pod("other", cpu="2"))
        await bench.rest(2)
        assert assigned(bench)["other"] == "a"
        await end(bench, "other")
        await add_nodes(bench, node("b", cpu="1"))
        await bench.rest(20)  # its backoff
        assert sorted(assigned(bench).values()) == ["a", "a", "b"]
        assert condition(bench, "gang") == ("True", "Scheduled", "")


async def test_more_pods_than_the_gang_needs_are_bound_as_they_fit(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with opened(tmp_path, node("a", cpu="2")) as bench:
        await bench.create(GROUPS, group("gang", 2))
        for name in ("first", "second", "third"):
            await bench.create("pods", member(name, "gang"))
        await bench.rest(2)
        assert assigned(bench) == {"first": "a", "second": "a", "third": ""}
        assert refusal(bench, "third").startswith("0/1 nodes are available: 1 Insufficient cpu. ")
        await add_nodes(bench, node("b", cpu="1"))
        await bench.rest(20)
        assert assigned(bench)["third"] == "b"
        assert condition(bench, "gang") == ("True", "Scheduled", "")


async def test_group_without_a_minimum_is_bound_as_it_fits(tmp_path: Path, autojump_clock: object) -> None:
    async with opened(tmp_path, node("a", cpu="1")) as bench:
        await bench.create(GROUPS, group("any"))
        for name in ("first", "second"):
            await bench.create("pods", member(name, "any"))
        await bench.rest(2)
        assert assigned(bench) == {"first": "a", "second": ""}


async def test_gang_of_high_priority_preempts(tmp_path: Path, autojump_clock: object) -> None:
    async with opened(tmp_path, node("a", cpu="2"), node("b", cpu="1")) as bench:
        await add_classes(bench)
        await run(bench, "low", "low", cpu="1")
        await run(bench, "also-low", "low", cpu="1")
        await bench.create(GROUPS, group("gang", 3))
        for name in ("first", "second", "third"):
            await bench.create("pods", member(name, "gang", priorityClassName="high"))
        await bench.rest()
        waits = "pod group is unschedulable, pod group is waiting for preemption to complete"
        assert condition(bench, "gang") == ("False", "Unschedulable", waits)
        assert refusal(bench, "first") == waits
        victims = [
            one["metadata"]["name"] for one in bench.all("pods") if "deletionTimestamp" in one["metadata"]
        ]
        assert sorted(victims) == ["also-low", "low"]
        for name in victims:
            await end(bench, name)
        await bench.rest(20)  # their backoff
        assert sorted(assigned(bench).values()) == ["a", "a", "b"]
        assert condition(bench, "gang") == ("True", "Scheduled", "")


async def test_pods_of_a_group_need_one_scheduler(tmp_path: Path, autojump_clock: object) -> None:
    async with opened(tmp_path, node("a")) as bench:
        await bench.create(GROUPS, group("gang", 2))
        await bench.create("pods", member("first", "gang"))
        await bench.create("pods", member("second", "gang", schedulerName="other"))
        await bench.rest(20)
        # The other pod is not of this scheduler: it counts as existing, and never gets a node here.
        assert not any(assigned(bench).values())
        assert "waiting for minCount pods" in refusal(bench, "first")


async def test_deleted_pods_do_not_count(tmp_path: Path, autojump_clock: object) -> None:
    async with opened(tmp_path, node("a", cpu="1")) as bench:
        await bench.create(GROUPS, group("gang", 2))
        for name in ("first", "second"):
            await bench.create("pods", member(name, "gang"))
        await bench.rest(2)
        await end(bench, "second")
        await add_nodes(bench, node("b", cpu="1"))
        await bench.rest(60)
        assert assigned(bench) == {"first": ""}
        await bench.create("pods", member("third", "gang"))
        await bench.rest(20)
        assert all(assigned(bench).values())


async def test_state_is_found_again_after_a_restart(tmp_path: Path, autojump_clock: object) -> None:
    async with opened(tmp_path, node("a", cpu="1")) as bench:
        await bench.create(GROUPS, group("gang", 2))
        await bench.create("pods", member("first", "gang"))
        await bench.rest(2)
    async with opened(tmp_path, node("b", cpu="1")) as bench:
        await bench.create("pods", member("second", "gang"))
        await bench.rest(20)
        assert sorted(assigned(bench).values()) == ["a", "b"]


async def test_groups_of_workloads_in_the_version_before(tmp_path: Path, autojump_clock: object) -> None:
    release = choose_release("1.35", GATES)
    async with opened(tmp_path, node("a", cpu="2"), release=release) as bench:
        policy = {"gang": {"minCount": 2}}
        groups = [{"name": "workers", "policy": policy}]
        await bench.create(OLD_WORKLOADS, {"metadata": {"name": "load"}, "spec": {"podGroups": groups}})

        def worker(name: str, replica: str) -> Object:
            reference = {"name": "load", "podGroup": "workers", "podGroupReplicaKey": replica}
            return pod(name, cpu="1", workloadRef=reference)

        await bench.create("pods", worker("first", "0"))
        await bench.create("pods", worker("other", "1"))
        await bench.rest(20)
        assert not any(assigned(bench).values())
        await bench.create("pods", worker("second", "0"))
        await bench.rest(20)
        assert assigned(bench) == {"first": "a", "other": "", "second": "a"}


@pytest.mark.parametrize("gates", ["", "GenericWorkload=true"])
async def test_without_the_gate_nothing_waits(tmp_path: Path, autojump_clock: object, gates: str) -> None:
    async with opened(tmp_path, node("a"), release=choose_release("1.36", gates)) as bench:
        await bench.create("pods", member("first", "gang"))
        await bench.rest(2)
        assert assigned(bench) == {"first": "a"}


async def test_group_stays_until_its_pods_have_ended(tmp_path: Path, autojump_clock: object) -> None:
    async with open_bench(tmp_path, "podgroup-protection-controller", release=NEWEST) as bench:
        template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}

        def named(name: str, template: str) -> Object:
            found = group(name, 2)
            reference = {"workloadName": "load", "podGroupTemplateName": template}
            found["spec"]["podGroupTemplateRef"] = {"workload": reference}
            return found

        with pytest.raises(Forbidden, match='PodGroup rejected: Workload "load" not found'):
            await bench.create(GROUPS, named("used", "workers"))
        await bench.create(
            WORKLOADS, {"metadata": {"name": "load"}, "spec": {"podGroupTemplates": [template]}}
        )
        with pytest.raises(Forbidden, match='PodGroupTemplate "x" not found in Workload "load"'):
            await bench.create(GROUPS, named("used", "x"))
        for name in ("used", "unused"):
            await bench.create(GROUPS, named(name, "workers"))
        await bench.create("pods", member("first", "used"))
        await bench.rest(60)
        for name in ("used", "unused"):
            await bench.delete(GROUPS, name)
        await bench.rest(60)
        (left,) = bench.all(GROUPS)
        assert left["metadata"]["name"] == "used"
        assert left["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
        await bench.patch("pods", "first", {"status": {"phase": "Succeeded"}}, "status")
        await bench.rest(1)
        assert not bench.all(GROUPS)
