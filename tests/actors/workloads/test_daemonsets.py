"""A DaemonSet runs one pod on each node that its template allows."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.kinds.built_in import built_in
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime import turns
from rewound.actors.workloads.daemonsets import Backoff, Placement, daemon_tolerations, pinned, target_node
from tests.actors.workloads.bench import Bench, open_bench, pod_template
from tests.cases import cases

LABELS = {"app": "agent"}
SETS, REVISIONS = "daemonsets.apps", "controllerrevisions.apps"


def daemon_set(template: Object | None = None, **spec: object) -> Object:
    described = {"selector": {"matchLabels": LABELS}, "template": template or pod_template(LABELS), **spec}
    return {"metadata": {"name": "agent"}, "spec": described}


def node(name: str, labels: dict[str, str] | None = None, *taints: Object) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": list(taints)}}


async def start(bench: Bench, *nodes: str, **spec: object) -> None:
    for name in nodes:
        await bench.create("nodes", node(name), "")
        await bench.patch("nodes", name, {"spec": {"taints": None}})
    await bench.create(SETS, daemon_set(**spec))  # type: ignore[arg-type]
    await bench.rest()


def counts(bench: Bench) -> tuple[int, ...]:
    """desired, current, misscheduled, ready, updated, available, unavailable."""
    status = bench.get(SETS, "agent")["status"]
    parts = ("desired", "current", "misscheduled", "ready", "updated", "available", "unavailable")
    names = {"desired": "desiredNumberScheduled", "current": "currentNumberScheduled"}
    names["updated"] = "updatedNumberScheduled"
    return tuple(status.get(names.get(part, f"number{part.title()}"), 0) for part in parts)


def pods_on(bench: Bench) -> dict[str, list[str]]:
    """The revisions of the pods of each node that are not being deleted."""
    found: dict[str, list[str]] = {}
    for pod in bench.all("pods"):
        if "deletionTimestamp" not in pod["metadata"]:
            on = found.setdefault(target_node(pod) or "", [])
            on.append(pod["metadata"]["labels"]["controller-revision-hash"])
    return found


def reasons(bench: Bench, reason: str) -> int:
    return sum(one["count"] for one in bench.all("events") if one["reason"] == reason)


async def update(bench: Bench, **template: str) -> None:
    await bench.patch(SETS, "agent", {"spec": {"template": pod_template(LABELS, **template)}})


async def mark(bench: Bench, on: str, **annotations: str | None) -> None:
    sent = {f"sim/{name.replace('_', '-')}": value for name, value in annotations.items()}
    for pod in bench.all("pods"):
        if target_node(pod) == on:
            await bench.patch("pods", pod["metadata"]["name"], {"metadata": {"annotations": sent}})


async def test_each_node_has_a_pod_that_only_it_takes(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "daemonset") as bench:
        await start(bench, "a", "b")
        assert counts(bench) == (2, 2, 0, 2, 2, 2, 0)
        (revision,) = bench.all(REVISIONS)
        hashed = revision["metadata"]["labels"]["controller-revision-hash"]
        assert revision["metadata"]["name"] == f"agent-{hashed}" and revision["revision"] == 1
        assert revision["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
        assert pods_on(bench) == {"a": [hashed], "b": [hashed]}
        pod = bench.all("pods")[0]
        assert pod["metadata"]["labels"]["pod-template-generation"] == "1"
        assert [one["key"].rpartition("/")[2] for one in pod["spec"]["tolerations"]] == [
            *("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure"),
            "unschedulable",
        ]
        assert reasons(bench, "SuccessfulCreate") == 2
        order = list(pod["spec"])
        assert order.index("affinity") < order.index("schedulerName") < order.index("tolerations")


async def test_pods_follow_nodes(tmp_path: Path, autojump_clock: MockClock) -> None:
    template = pod_template(LABELS)
    template["spec"]["nodeSelector"] = {"disk": "ssd"}
    async with open_bench(tmp_path, "daemonset") as bench:
        await start(bench, "a", "b", template=template)
        assert pods_on(bench) == {} and counts(bench) == (0,) * 7
        assert bench.get(SETS, "agent")["status"]["observedGeneration"] == 1
        await bench.patch("nodes", "a", {"metadata": {"labels": {"disk": "ssd"}}})
        await bench.rest()
        assert list(pods_on(bench)) == ["a"] and counts(bench) == (1, 1, 0, 1, 1, 1, 0)
        taint = {"key": "k", "effect": "NoSchedule"}
        await bench.patch("nodes", "a", {"spec": {"taints": [taint]}})
        await bench.rest()
        assert list(pods_on(bench)) == ["a"] and counts(bench) == (0, 0, 1, 0, 0, 0, 0)
        await bench.patch("nodes", "a", {"spec": {"taints": [{**taint, "effect": "NoExecute"}]}})
        await bench.rest()
        assert pods_on(bench) == {} and counts(bench) == (0,) * 7
        await bench.create("nodes", node("c", {"disk": "ssd"}), "")
        await bench.patch("nodes", "c", {"spec": {"taints": None}})
        await bench.rest()
        assert list(pods_on(bench)) == ["c"]
        await bench.patch("nodes", "c", {"metadata": {"labels": {"disk": "hdd"}}})
        await bench.rest()
        assert pods_on(bench) == {}
        written = len(bench.directory.commands)
        await bench.patch("nodes", "c", {"status": {"nodeInfo": {"machineID": "x"}}}, "status")
        await bench.rest()
        assert len(bench.directory.commands) == written + 1


async def test_pod_of_a_removed_node_that_never_ran_is_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "daemonset", pods_run=False) as bench:
        await start(bench, "a", "b")
        assert sorted(pods_on(bench)) == ["a", "b"]
        await bench.delete("nodes", "a")
        await bench.rest()
        assert list(pods_on(bench)) == ["b"] and counts(bench)[0] == 1


async def test_update_replaces_as_many_pods_as_may_be_unavailable(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
    async with open_bench(tmp_path, "daemonset") as bench:
        await start(bench, "a", "b", "c", updateStrategy=strategy)
        (first,) = bench.names(REVISIONS)
        await update(bench, image="web:2", phase="NeverReady")
        await bench.rest(600)
        assert counts(bench) == (3, 3, 0, 1, 2, 1, 2)
        old = [node for node, (hashed,) in pods_on(bench).items() if f"agent-{hashed}" == first]
        assert len(old) == 1 and reasons(bench, "SuccessfulDelete") == 2
        await mark(bench, "a", phase="Running")
        await mark(bench, "b", phase="Running")
        await mark(bench, "c", phase="Running")
        await bench.rest()
        assert counts(bench)[4] == 3
        await update(bench, image="web:1", phase="Running")
        await bench.rest()
        assert counts(bench) == (3, 3, 0, 3, 3, 3, 0)


async def test_rollback_uses_the_old_revision_again_and_history_has_a_limit(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "daemonset") as bench:
        await start(bench, "a", revisionHistoryLimit=1)
        for image in ("web:2", "web:1", "web:3"):
            await update(bench, image=image)
            await bench.rest()
        assert counts(bench) == (1, 1, 0, 1, 1, 1, 0)
        assert sorted(one["revision"] for one in bench.all(REVISIONS)) == [3, 4]
        images = {
            one["revision"]: one["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
            for one in bench.all(REVISIONS)
        }
        assert images == {3: "web:1", 4: "web:3"}


async def test_surge_starts_the_new_pod_before_the_old_one_goes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    async with open_bench(tmp_path, "daemonset") as bench:
        await start(bench, "a", "b", updateStrategy=strategy, minReadySeconds=10)
        await bench.rest(20)
        await update(bench, image="web:2", phase="NeverReady")
        await bench.rest(60)
        assert sorted(map(len, pods_on(bench).values())) == [1, 2]
        assert counts(bench) == (2, 2, 0, 2, 0, 2, 0)  # the old pods count
        (node,) = [name for name, pods in pods_on(bench).items() if len(pods) == 2]
        await mark(bench, node, phase="Running")
        await bench.rest(5)
        assert sorted(map(len, pods_on(bench).values())) == [1, 2]
        await bench.rest(10)
        assert len(pods_on(bench)[node]) == 1 and counts(bench)[4] == 1
        assert sorted(map(len, pods_on(bench).values())) == [1, 2]  # now the other node


async def test_pods_of_on_delete_are_updated_when_a_client_deletes_them(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "daemonset") as bench:
        await start(bench, "a", "b", updateStrategy={"type": "OnDelete"})
        await update(bench, image="web:2")
        await bench.rest()
        assert counts(bench) == (2, 2, 0, 2, 0, 2, 0)
        await bench.delete("pods", bench.names("pods")[0])
        await bench.rest()
        assert counts(bench) == (2, 2, 0, 2, 1, 2, 0)


async def test_failed_pods_are_replaced_after_growing_pauses(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "daemonset") as bench:
        await start(bench, "a", template=pod_template(LABELS, phase="Failed"))
        await bench.rest(62)  # at 0, 1, 3, 7, 15, 31 seconds
        assert reasons(bench, "FailedDaemonPod") == reasons(bench, "SuccessfulDelete") == 6
        pod = bench.all("pods")[0]
        await bench.rest(2)
        message = f"Found failed daemon pod default/{pod['metadata']['name']} on node a, will try to kill it"
        assert ("FailedDaemonPod", message) in bench.events("agent")


async def test_surplus_pods_go_and_orphans_are_adopted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "daemonset") as bench:
        await bench.create("nodes", node("a"), "")
        await bench.patch("nodes", "a", {"spec": {"taints": None}})
        for name in ("first", "second"):
            pod = {"metadata": {"name": name, "labels": LABELS}, "spec": pod_template({})["spec"]}
            pod["spec"]["nodeName"] = "a"
            await bench.create("pods", pod)
            await bench.rest(1)
        await start(bench)
        (left,) = bench.all("pods")
        deleted = [message for reason, message in bench.events("agent") if reason == "SuccessfulDelete"]
        assert deleted == ["Deleted pod: second", "Deleted pod: first"]  # the older one by the update
        assert counts(bench) == (1, 1, 0, 1, 1, 1, 0)
        assert left["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"


async def test_revision_whose_name_is_taken_gets_another_hash(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "daemonset") as bench:
        await start(bench, "a")
        (name,) = bench.names(REVISIONS)
        await bench.delete(SETS, "agent")
        await bench.rest()
        await bench.delete(REVISIONS, name)
        for pod in bench.names("pods"):
            await bench.delete("pods", pod)
        await bench.create(REVISIONS, {"metadata": {"name": name}, "data": {"spec": {}}, "revision": 7})
        await bench.create(SETS, daemon_set())
        await bench.rest()
        (other,) = set(bench.names(REVISIONS)) - {name}
        assert bench.get(SETS, "agent")["status"]["collisionCount"] == 1
        assert pods_on(bench) == {"a": [other.removeprefix("agent-")]}


async def test_equal_revisions_become_one(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "daemonset") as bench:
        await start(bench, "a")
        (revision,) = bench.all(REVISIONS)
        copy = {**revision, "metadata": {"name": "agent-copy", "labels": LABELS}, "revision": 5}
        await bench.create(REVISIONS, copy)
        await bench.rest()
        assert [(one["metadata"]["name"], one["revision"]) for one in bench.all(REVISIONS)] == [
            ("agent-copy", 5)
        ]
        assert pods_on(bench) == {"a": ["agent-copy"]} and counts(bench)[4] == 1


@pytest.mark.parametrize("stop", range(1, 22, 4))
async def test_a_kill_before_any_write_ends_in_the_same_world(
    tmp_path: Path, autojump_clock: MockClock, stop: int
) -> None:
    async with open_bench(tmp_path, "daemonset") as bench:
        bench.kill_before(stop, "daemon-set-controller")
        await start(bench, "a", "b")
        await update(bench, image="web:2")
        await bench.rest()
    async with open_bench(tmp_path, "daemonset") as bench:
        await bench.rest()
        await update(bench, image="web:2")
        await bench.rest()
        assert counts(bench) == (2, 2, 0, 2, 2, 2, 0)
        assert sorted(map(len, pods_on(bench).values())) == [1, 1]
        assert sorted(one["revision"] for one in bench.all(REVISIONS)) == [1, 2]


# Pure functions


def described(**spec: object) -> Object:
    definition = built_in(KUBERNETES).storage(SETS)
    template = pod_template(LABELS)
    template["spec"] |= spec
    found: Object = definition.schema.decode_object(daemon_set(template)).object["spec"]["template"]
    return found


NOT_READY = "node.kubernetes.io/not-ready"


@cases(
    ("spec", "nodes"),
    [
        ({}, ["plain", "not-ready", "labelled"]),
        ({"nodeName": "plain"}, ["plain"]),
        ({"nodeSelector": {"disk": "ssd"}}, ["labelled"]),
        (
            {"tolerations": [{"key": "k", "operator": "Exists"}]},
            ["plain", "not-ready", "tainted", "labelled"],
        ),
    ],
)
def test_daemon_pods_run_on_nodes_that_allow_them(spec: Object, nodes: list[str]) -> None:
    placement = Placement(KUBERNETES, described(**spec))
    every = [
        node("plain"),
        node("not-ready", None, {"key": NOT_READY, "effect": "NoExecute"}),
        node("tainted", None, {"key": "k", "effect": "NoSchedule"}),
        node("labelled", {"disk": "ssd"}),
    ]
    assert [one["metadata"]["name"] for one in every if placement.of(one)[0]] == nodes


def test_tolerations_of_the_template_stay_but_for_their_time() -> None:
    own = [
        {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        {"key": "k"},
    ]
    found = daemon_tolerations(KUBERNETES, {"tolerations": own, "hostNetwork": True})
    assert found[:2] == [{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}, {"key": "k"}]
    assert len(found) == 8 and found[-1]["key"] == "node.kubernetes.io/network-unavailable"


def test_affinity_to_the_node_replaces_what_the_template_requires_and_keeps_what_it_prefers() -> None:
    preferred = [{"weight": 1, "preference": {}}]
    required: Object = {"nodeSelectorTerms": [{"matchExpressions": []}]}
    of_nodes = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    found = pinned({"nodeAffinity": of_nodes, "podAffinity": {}}, "a")
    assert found["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert "podAffinity" in found and target_node({"spec": {"affinity": found}}) == "a"
    assert target_node({"spec": {"affinity": found, "nodeName": "b"}}) == "b"
    assert target_node({"spec": {}}) is None


def test_backoff_doubles_and_resets_after_half_an_hour() -> None:
    backoff = Backoff()
    assert backoff.remaining("a", 100) == 0 and backoff.remaining("a", 100.25) == 0.75
    assert backoff.remaining("a", 101) == 0 and backoff.remaining("a", 102) == 1
    assert backoff.remaining("b", 102) == 0
    assert backoff.remaining("a", 2000) == 0 and backoff.remaining("a", 2000.5) == 0.5


async def turns_taken(bench: Bench, monkeypatch: pytest.MonkeyPatch, act: Awaitable[object]) -> int:
    """How many turns the controllers wait for until they rest, if every step ends a turn."""
    taken, wait = 0, turns.next_turn

    async def counted() -> None:
        nonlocal taken
        taken += 1
        await wait()

    with monkeypatch.context() as patched:
        patched.setattr(turns, "TURN", 0.0)
        patched.setattr(turns, "next_turn", counted)
        await act
        await bench.rest()
    return taken


async def test_passes_over_many_nodes_take_turns(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each node: its pod, what to do with it, and how it is counted."""
    nodes = [f"n{number}" for number in range(30)]
    async with open_bench(tmp_path, "daemonset") as bench:
        taken = await turns_taken(bench, monkeypatch, start(bench, *nodes))
        assert counts(bench) == (30, 30, 0, 30, 30, 30, 0)
        assert taken >= 3 * len(nodes)


async def test_node_that_changes_is_looked_at_for_many_sets_in_turns(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = pod_template(LABELS)
    template["spec"]["nodeSelector"] = {"disk": "ssd"}
    async with open_bench(tmp_path, "daemonset") as bench:
        await start(bench, "a", template=template)
        for number in range(40):
            await bench.create(SETS, {**daemon_set(template), "metadata": {"name": f"s{number}"}})
        await bench.rest()
        label = bench.patch("nodes", "a", {"metadata": {"labels": {"disk": "no"}}})
        assert await turns_taken(bench, monkeypatch, label) >= 41
        assert pods_on(bench) == {}
