"""Nodes that stop renewing their leases become unknown; their pods become unready and are evicted, as in v1.25."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.kinds.values.times import micros_text, seconds_text
from rewound.actors.messages import Object
from rewound.actors.versions.features import V1_25, choose_release
from tests.actors.workloads.bench import Bench, open_bench

LEASES, LEASE_NAMESPACE = "leases.coordination.k8s.io", "kube-node-lease"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
LIFECYCLE = "nodelifecycle"


async def add_node(bench: Bench, name: str, ready: str = "True", **labels: str) -> None:
    await bench.create("nodes", {"metadata": {"name": name, "labels": labels}})
    await report(bench, name, ready)
    lease = {"holderIdentity": name, "renewTime": micros_text(bench.clock.now())}
    await bench.create(LEASES, {"metadata": {"name": name}, "spec": lease}, LEASE_NAMESPACE)


async def report(bench: Bench, name: str, ready: str = "True", **others: str) -> None:
    now = seconds_text(bench.clock.now())
    conditions = [
        {"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now, "reason": "R"}
        for kind, status in {"Ready": ready, **others}.items()
    ]
    await bench.patch("nodes", name, {"status": {"conditions": conditions}}, "status")


async def renew(bench: Bench, *names: str) -> None:
    for name in names:
        renewed = {"spec": {"renewTime": micros_text(bench.clock.now())}}
        await bench.patch(LEASES, name, renewed, namespace=LEASE_NAMESPACE)


async def pass_time(bench: Bench, seconds: int, *alive: str) -> None:
    """Nodes that are alive renew their leases every ten seconds."""
    for _ in range(seconds // 10):
        await bench.rest(10)
        await renew(bench, *alive)
    await bench.rest(seconds % 10)


async def add_pod(bench: Bench, name: str, node: str, *tolerations: Object) -> None:
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "nodeName": node,
        "tolerations": list(tolerations),
    }
    await bench.create("pods", {"metadata": {"name": name}, "spec": spec})


def staying(bench: Bench) -> list[str]:
    """The pods that are not being deleted."""
    pods = (one["metadata"] for one in bench.all("pods"))
    return [one["name"] for one in pods if "deletionTimestamp" not in one]


def tolerate(key: str, seconds: int | None = None) -> Object:
    limited = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **limited}


def taints(bench: Bench, name: str) -> list[tuple[str, str]]:
    found = bench.get("nodes", name)["spec"].get("taints") or ()
    return sorted((one["key"].removeprefix("node.kubernetes.io/"), one["effect"]) for one in found)


def conditions(bench: Bench, type_name: str, name: str) -> dict[str, tuple[str, ...]]:
    found = bench.get(type_name, name)["status"].get("conditions") or ()
    return {one["type"]: (one["status"], one.get("reason", ""), one.get("message", "")) for one in found}


async def test_node_without_signs_of_life(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, LIFECYCLE, pods_run=False) as bench:
        await add_node(bench, "a")
        await add_node(bench, "b")
        await add_pod(bench, "default-time", "a")
        await add_pod(bench, "short", "a", tolerate(UNREACHABLE, 3))
        await add_pod(bench, "other", "b")
        for name in bench.names("pods"):
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await bench.patch("pods", name, {"status": status}, "status")
        await pass_time(bench, 100, "a", "b")
        assert taints(bench, "a") == [] == taints(bench, "b")
        assert bench.events("a") == [("RegisteredNode", "Node a event: Registered Node a in Controller")]
        await pass_time(bench, 39, "b")
        assert conditions(bench, "nodes", "a")["Ready"][0] == "True"
        await pass_time(bench, 3, "b")
        unknown = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        never = ("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status.")
        assert conditions(bench, "nodes", "a") == {
            "Ready": unknown,
            "MemoryPressure": never,
            "DiskPressure": never,
            "PIDPressure": never,
        }
        assert taints(bench, "a") == [("unreachable", "NoSchedule")]
        assert bench.events("a")[1:] == [("NodeNotReady", "Node a status is now: NodeNotReady")]
        ready = {name: conditions(bench, "pods", name)["Ready"][0] for name in bench.names("pods")}
        assert ready == {"default-time": "False", "short": "False", "other": "True"}
        assert ("NodeNotReady", "Node is not ready") in bench.events("short")
        await pass_time(bench, 4, "b")
        assert taints(bench, "a") == [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]
        await pass_time(bench, 4, "b")
        assert staying(bench) == ["default-time", "other"]
        assert bench.events("short")[-1] == (
            "TaintManagerEviction",
            "Marking for deletion Pod default/short",
        )
        # It is back before the other pod has to leave.
        await report(bench, "a")
        await renew(bench, "a")
        await bench.rest()
        assert taints(bench, "a") == [("unreachable", "NoExecute")]
        await bench.rest(5)
        assert taints(bench, "a") == []
        assert bench.events("default-time")[-1] == (
            "TaintManagerEviction",
            "Cancelling deletion of Pod default/default-time",
        )
        await pass_time(bench, 400, "a", "b")
        assert staying(bench) == ["default-time", "other"]


async def test_node_that_never_reports(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, LIFECYCLE) as bench:
        await add_node(bench, "up")
        await bench.create("nodes", {"metadata": {"name": "silent"}})
        await pass_time(bench, 58, "up")
        assert conditions(bench, "nodes", "silent") == {}
        await pass_time(bench, 4, "up")
        assert conditions(bench, "nodes", "silent")["Ready"] == (
            "Unknown",
            "NodeStatusNeverUpdated",
            "Kubelet never posted node status.",
        )
        assert [reason for reason, _ in bench.events("silent")] == ["RegisteredNode"]
        await bench.delete("nodes", "silent")
        await pass_time(bench, 6, "up")
        assert bench.events("silent")[-1] == (
            "RemovingNode",
            "Node silent event: Removing Node silent from Controller",
        )


async def test_conditions_become_taints(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, LIFECYCLE) as bench:
        await add_node(bench, "a", **{"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"})
        await add_node(bench, "b")
        own = {"key": "mine", "value": "v", "effect": "NoSchedule"}
        await bench.patch("nodes", "a", {"spec": {"unschedulable": True, "taints": [own]}})
        await report(bench, "a", "False", DiskPressure="True", MemoryPressure="False", PIDPressure="True")
        await bench.rest()
        expected = {"disk-pressure", "pid-pressure", "mine", "unschedulable", "not-ready"}
        assert {key for key, _ in taints(bench, "a")} == expected
        labels = bench.get("nodes", "a")["metadata"]["labels"]
        assert labels["beta.kubernetes.io/os"] == "linux" and labels["beta.kubernetes.io/arch"] == "arm64"
        await pass_time(bench, 6, "a", "b")
        assert ("not-ready", "NoExecute") in taints(bench, "a")
        await report(bench, "a", "Unknown")
        await bench.rest()
        assert [(key, effect) for key, effect in taints(bench, "a") if effect == "NoExecute"] == [
            ("unreachable", "NoExecute")
        ]
        await report(bench, "a")
        await bench.patch("nodes", "a", {"spec": {"unschedulable": None}})
        await bench.rest(6)
        assert taints(bench, "a") == [("mine", "NoSchedule")]


async def test_taints_that_evict(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, LIFECYCLE) as bench:
        await add_node(bench, "a")
        await add_pod(bench, "plain", "a")
        await add_pod(bench, "tolerant", "a", tolerate("k"))
        await add_pod(bench, "short", "a", tolerate("k", 30))
        await bench.patch("nodes", "a", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
        await bench.rest()
        assert bench.names("pods") == ["short", "tolerant"]
        await add_pod(bench, "new", "a", tolerate("k", 10))
        await pass_time(bench, 29, "a")
        assert bench.names("pods") == ["short", "tolerant"]
        await pass_time(bench, 2, "a")
        assert bench.names("pods") == ["tolerant"]
        await pass_time(bench, 100, "a")
        assert bench.names("pods") == ["tolerant"]


async def test_all_nodes_down_evicts_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, LIFECYCLE) as bench:
        await add_node(bench, "a")
        await add_node(bench, "b")
        await add_pod(bench, "p", "a", tolerate(UNREACHABLE, 60))
        await pass_time(bench, 20, "a", "b")
        await pass_time(bench, 20, "b")
        await pass_time(bench, 400)
        for name in ("a", "b"):
            assert taints(bench, name) == [("unreachable", "NoSchedule")]
        assert bench.names("pods") == ["p"]
        await report(bench, "b")
        await pass_time(bench, 6, "b")
        assert taints(bench, "a") == [("unreachable", "NoSchedule")]
        await pass_time(bench, 20, "b")
        assert ("unreachable", "NoExecute") in taints(bench, "a")
        await pass_time(bench, 70, "b")
        assert bench.names("pods") == []


async def test_nodes_are_tainted_one_by_one_in_each_zone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, LIFECYCLE) as bench:
        zone = "topology.kubernetes.io/zone"
        nodes = {f"{letter}{number}": letter for letter in "xy" for number in range(6)}
        for name, where in nodes.items():
            await add_node(bench, name, **{zone: where})
        await pass_time(bench, 20, *nodes)
        for name in ("x0", "x1", "y0"):
            await report(bench, name, "False")

        def evicting() -> list[str]:
            return [name for name in nodes if ("not-ready", "NoExecute") in taints(bench, name)]

        await pass_time(bench, 6, *nodes)
        assert evicting() == ["x0", "y0"]
        await pass_time(bench, 10, *nodes)
        assert evicting() == ["x0", "x1", "y0"]
        # Four of six: the zone is unhealthy and small.
        for name in ("y1", "y2", "y3"):
            await report(bench, name, "False")
        await pass_time(bench, 60, *nodes)
        assert evicting() == ["x0", "x1", "y0"]


async def test_end_of_the_server_at_any_write_leads_to_the_same_world(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    for number in range(1, 7):
        path = tmp_path / str(number)
        async with open_bench(path, LIFECYCLE, pods_run=False) as bench:
            await add_node(bench, "a")
            await add_node(bench, "b")
            await add_pod(bench, "p", "a", tolerate(UNREACHABLE, 20))
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await bench.patch("pods", "p", {"status": status}, "status")
            await pass_time(bench, 10, "a", "b")
            bench.kill_before(number, ":node-controller")
            await pass_time(bench, 100, "b")
        async with open_bench(path, LIFECYCLE, pods_run=False) as bench:
            await report(bench, "b")
            await pass_time(bench, 110, "b")
            expected = [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]
            assert (taints(bench, "a"), taints(bench, "b")) == (expected, []), number
            assert conditions(bench, "nodes", "a")["Ready"][0] == "Unknown"
            assert conditions(bench, "pods", "p")["Ready"][0] == "False", number
            assert staying(bench) == [], number


async def test_renewals_lead_to_no_work(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, LIFECYCLE) as bench:
        for number in range(5):
            await add_node(bench, f"n{number}")
        await pass_time(bench, 20, *(f"n{number}" for number in range(5)))
        (loop,) = (one for one in bench.workloads.loops if one.name == LIFECYCLE)
        before, written = loop.statistics()[1].taken, len(bench.directory.commands)
        await pass_time(bench, 200, *(f"n{number}" for number in range(5)))
        # 100 renewals: one look at all nodes of a second when their 40 seconds would end, from the last signs on.
        assert loop.statistics()[1].taken - before <= 200 / 30 + 2
        assert {user for user, _ in bench.directory.commands[written:]} == {"tester"}


async def test_time_without_cpu_does_not_count(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, LIFECYCLE, pods_run=False) as bench:
        await add_node(bench, "a")
        await pass_time(bench, 20, "a")
        autojump_clock.jump(3600)  # no task runs meanwhile
        await bench.rest(10)
        assert conditions(bench, "nodes", "a")["Ready"][0] == "True"
        await pass_time(bench, 30, "a")
        await pass_time(bench, 39)
        assert conditions(bench, "nodes", "a")["Ready"][0] == "True"
        await pass_time(bench, 3)
        assert conditions(bench, "nodes", "a")["Ready"][0] == "Unknown"


async def test_taint_eviction_is_a_controller_of_its_own_since_1_29(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    taint = {"key": "k", "effect": "NoExecute"}
    newer = choose_release("1.30")
    for number, (names, release, stays) in enumerate(
        (
            ([LIFECYCLE], V1_25, False),
            ([LIFECYCLE], newer, True),
            (["taint-eviction-controller"], newer, False),
            ([LIFECYCLE], choose_release("1.30", "SeparateTaintEvictionController=false"), False),
        )
    ):
        async with open_bench(tmp_path / str(number), *names, pods_run=False, release=release) as bench:
            await add_node(bench, "a")
            await add_pod(bench, "p", "a")
            await bench.patch("nodes", "a", {"spec": {"taints": [taint]}})
            await bench.rest()
            assert staying(bench) == (["p"] if stays else [])
            reasons = {kind: why for kind, (_, why, _) in conditions(bench, "pods", "p").items()}
            announced = release is not V1_25 and not stays
            assert reasons.get("DisruptionTarget") == ("DeletionByTaintManager" if announced else None)
