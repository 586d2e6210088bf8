"""HorizontalPodAutoscalers set the replicas of their targets by metrics, with the conditions and Events of v1.25."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import orjson
import pytest
from trio.testing import MockClock

from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.aggregation.content import NoResponse
from rewound.actors.aggregation.priorities import CUSTOM
from rewound.actors.identity import User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Command, DeleteOptions, Object, Patch
from rewound.actors.runtime.steps import Steps
from rewound.actors.selectors.labels import LabelSelector
from rewound.actors.versions.features import V1_25, Release, choose_release
from rewound.actors.workloads.autoscaling import HorizontalPodAutoscalers, Limits
from rewound.actors.workloads.controller import Parts
from rewound.actors.workloads.metrics import MetricsApis
from rewound.actors.workloads.replica_counts import (
    NoReplicaCount,
    PodMetric,
    Tolerances,
    average_count,
    utilization_count,
    value_count,
    value_per_pod_count,
)
from rewound.actors.workloads.simulated_metrics import SimulatedMetrics
from tests.actors.workloads.bench import Bench, open_bench, pod_template
from tests.cases import cases

AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
CONTROLLERS = ("horizontalpodautoscaling", "replicaset")
RULES = Tolerances(0.1, 300_000_000, 30_000_000)
SECOND = 1_000_000
PERIOD = 15
T = TypeVar("T")


@asynccontextmanager
async def open_autoscaled(path: Path, release: Release = V1_25, **annotations: str) -> AsyncIterator[Bench]:
    """A bench with two pods of a ReplicaSet that have these annotations and have been ready for ten minutes."""
    async with open_bench(path, *CONTROLLERS, release=release) as bench:
        SimulatedMetrics(bench.context.names, bench.registry, bench.journal, bench.feed, bench.clock)
        await bench.create("replicasets.apps", replica_set(2, **annotations))
        await bench.rest(600)
        yield bench


def replica_set(replicas: int, request: str = "100m", **annotations: str) -> Object:
    labels = {"app": "web"}
    template = pod_template(labels, **annotations)
    if request:
        template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": request}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


def autoscaler(*metrics: Object, low: int = 1, high: int = 10, **spec: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
    found = list(metrics) or [cpu(50)]
    return {
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": low, "maxReplicas": high, "metrics": found, **spec},
    }


def cpu(percent: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def replicas(bench: Bench) -> int:
    found: int = bench.get("replicasets.apps", "web")["spec"].get("replicas", 0)
    return found


def happened(bench: Bench) -> list[tuple[str, str]]:
    """The Events of the autoscaler."""
    return [one for one in bench.events("web") if one[0] not in ("SuccessfulCreate", "SuccessfulDelete")]


def conditions(bench: Bench) -> dict[str, tuple[str, str]]:
    found = bench.get(AUTOSCALERS, "web")["status"].get("conditions") or ()
    return {one["type"]: (one["status"], one["reason"]) for one in found}


async def annotate(bench: Bench, **usage: str) -> None:
    annotations = {f"sim/{name}": value for name, value in usage.items()}
    template = {"metadata": {"annotations": annotations}}
    await bench.patch("replicasets.apps", "web", {"spec": {"template": template}})
    for name in bench.names("pods"):
        await bench.patch("pods", name, {"metadata": {"annotations": annotations}})
        await bench.patch("pods", name, {"status": {"startTime": "2023-11-14T00:00:00Z"}}, "status")


async def test_more_usage_scales_up_and_less_down(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_autoscaled(tmp_path) as bench:
        await annotate(bench, cpu="150m")
        await bench.create(AUTOSCALERS, autoscaler())
        await bench.rest(PERIOD - 1)
        assert replicas(bench) == 2 and not conditions(bench)
        await bench.rest(2)
        assert replicas(bench) == 4  # six are wanted, and four is the most in one step
        assert conditions(bench) == {
            "AbleToScale": ("True", "SucceededRescale"),
            "ScalingActive": ("True", "ValidMetricFound"),
            "ScalingLimited": ("True", "ScaleUpLimit"),
        }
        reason = "cpu resource utilization (percentage of request) above target"
        assert happened(bench)[-1] == ("SuccessfulRescale", f"New size: 4; reason: {reason}")
        status = bench.get(AUTOSCALERS, "web")["status"]
        assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 4) and "lastScaleTime" in status
        assert status["currentMetrics"] == [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageUtilization": 150, "averageValue": "150m"}},
            }
        ]
        await annotate(bench, cpu="25m")
        await bench.rest(60)
        assert replicas(bench) >= 4 and conditions(bench)["AbleToScale"] == ("True", "ScaleDownStabilized")
        await bench.rest(600)
        assert replicas(bench) == 1
        assert happened(bench)[-1] == ("SuccessfulRescale", "New size: 1; reason: All metrics below target")


async def test_steady_usage_changes_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_autoscaled(tmp_path) as bench:
        await annotate(bench, cpu="52m")
        await bench.create(AUTOSCALERS, autoscaler())
        await bench.rest(60)
        head = bench.journal.head
        await bench.rest(1800)
        assert bench.journal.head == head and replicas(bench) == 2
        assert conditions(bench)["ScalingLimited"] == ("False", "DesiredWithinRange")
        assert conditions(bench)["AbleToScale"] == ("True", "ReadyForNewScale")


async def test_behavior_limits_and_stabilizes(tmp_path: Path, autojump_clock: MockClock) -> None:
    one_each_minute = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
    down = {**one_each_minute, "stabilizationWindowSeconds": 0}
    async with open_autoscaled(tmp_path) as bench:
        await annotate(bench, cpu="500m")
        await bench.create(AUTOSCALERS, autoscaler(behavior={"scaleUp": one_each_minute, "scaleDown": down}))
        await bench.rest(16)
        assert replicas(bench) == 3 and conditions(bench)["ScalingLimited"] == ("True", "ScaleUpLimit")
        await annotate(bench, cpu="500m")
        await bench.rest(50)
        assert replicas(bench) == 3
        await bench.rest(30)
        assert replicas(bench) == 4
        await annotate(bench, cpu="1m")
        await bench.rest(30)
        assert replicas(bench) == 3 and conditions(bench)["ScalingLimited"] == ("True", "ScaleDownLimit")


async def test_limits_hold_without_metrics(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_autoscaled(tmp_path) as bench:
        await bench.create(AUTOSCALERS, autoscaler(low=3, high=5))
        await bench.rest(20)
        assert replicas(bench) == 3
        message = "New size: 3; reason: Current number of replicas below Spec.MinReplicas"
        assert happened(bench)[-1] == ("SuccessfulRescale", message)
        await bench.patch("replicasets.apps", "web", {"spec": {"replicas": 8}})
        await bench.rest(20)
        assert replicas(bench) == 5
        await bench.rest(20)
        why = (
            "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from "
            "resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
        )
        assert conditions(bench)["ScalingActive"] == ("False", "FailedGetResourceMetric")
        assert ("FailedGetResourceMetric", why) in happened(bench)
        outer = f"invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {why}"
        assert ("FailedComputeMetricsReplicas", outer) in happened(bench)


async def test_target_without_replicas_request_or_existence(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_autoscaled(tmp_path, cpu="50m") as bench:
        await bench.create(AUTOSCALERS, autoscaler())
        await bench.patch("replicasets.apps", "web", {"spec": {"replicas": 0}})
        await bench.rest(20)
        assert conditions(bench)["ScalingActive"] == ("False", "ScalingDisabled")
        await bench.delete("replicasets.apps", "web")
        await bench.rest(20)
        assert conditions(bench)["AbleToScale"] == ("False", "FailedGetScale")
        assert ("FailedGetScale", 'replicasets/scale.apps "web" not found') in happened(bench)
        await bench.create("replicasets.apps", replica_set(2, request="", cpu="50m"))
        await bench.rest(40)
        found = [message for reason, message in happened(bench) if reason == "FailedGetResourceMetric"]
        assert found[-1] == "failed to get cpu utilization: missing request for cpu"
        for kind, version, text in (
            ("Nonsense", "apps/v1", 'no matches for kind "Nonsense" in group "apps"'),
            ("ReplicaSet", "a/b/c", "unexpected GroupVersion string: a/b/c"),
            ("DaemonSet", "apps/v1", "the server could not find the requested resource"),
        ):
            target = {"apiVersion": version, "kind": kind, "name": "web"}
            await bench.patch(AUTOSCALERS, "web", {"spec": {"scaleTargetRef": target}})
            await bench.rest(20)
            assert ("FailedGetScale", text) in happened(bench)


async def test_pods_of_several_autoscalers_are_not_scaled(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_autoscaled(tmp_path, choose_release("1.36")) as bench:
        await annotate(bench, cpu="50m")
        await bench.create(AUTOSCALERS, autoscaler())
        other = autoscaler()
        await bench.create(AUTOSCALERS, {**other, "metadata": {"name": "other"}})
        await bench.rest(3 * PERIOD)
        await annotate(bench, cpu="150m")
        await bench.rest(2 * PERIOD)
        assert replicas(bench) == 2
        assert conditions(bench)["ScalingActive"] == ("False", "AmbiguousSelector")
        text = "pods by selector app=web are controlled by multiple HPAs: [default/other default/web]"
        assert {("AmbiguousSelector", text), ("FailedComputeMetricsReplicas", text)} <= set(happened(bench))
        await bench.client.delete(bench.catalog.storage(AUTOSCALERS), "default", "other", DeleteOptions())
        await bench.rest(PERIOD + 1)
        assert replicas(bench) == 4 and conditions(bench)["ScalingActive"] == ("True", "ValidMetricFound")


async def test_in_1_25_several_autoscalers_may_scale_the_same_pods(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_autoscaled(tmp_path) as bench:
        await bench.create(AUTOSCALERS, autoscaler())
        await bench.create(AUTOSCALERS, {**autoscaler(), "metadata": {"name": "other"}})
        await annotate(bench, cpu="150m")
        await bench.rest(3 * PERIOD)
        assert replicas(bench) > 2


async def test_autoscaler_that_is_deleted_is_left_alone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_autoscaled(tmp_path) as bench:
        await annotate(bench, cpu="500m")
        await bench.create(AUTOSCALERS, autoscaler())
        await bench.delete(AUTOSCALERS, "web")
        await bench.rest(60)
        assert replicas(bench) == 2


async def test_a_kill_before_any_write_ends_in_the_same_world(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    ends = []
    for stop in (0, 1, 2, 3):
        async with open_autoscaled(tmp_path / str(stop)) as bench:
            await annotate(bench, cpu="150m")
            if stop:
                bench.kill_before(stop, "horizontal-pod-autoscaler")
            await bench.create(AUTOSCALERS, autoscaler(high=5))
            await bench.rest(25)
        async with open_bench(tmp_path / str(stop), *CONTROLLERS) as bench:
            SimulatedMetrics(bench.context.names, bench.registry, bench.journal, bench.feed, bench.clock)
            await bench.rest(60)
            ends.append((replicas(bench), conditions(bench)))
    assert ends[0][0] == 5 and ends == [ends[0]] * 4


class OtherServer:
    """Another server for the custom and external metrics, behind an APIService."""

    def __init__(self, *groups: str) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.responses: dict[str, Object | str] = {}  # a text: why there is no document
        one = {group: ApiService(group, group, "v1beta1", CUSTOM, None, b"", False, True) for group in groups}
        self.api_services = SimpleNamespace(
            remote={(group, "v1beta1"): found for group, found in one.items()}
        )

    async def get(self, one: ApiService, path: str, query: str, user: User, resource: str) -> bytes:
        self.asked.append((path, query, user.name))
        found = self.responses[path]
        if isinstance(found, str):
            raise NoResponse(f"{found} (get {resource})")
        return orjson.dumps(found)


async def test_custom_and_external_metrics(tmp_path: Path, autojump_clock: MockClock) -> None:
    pods = {"type": "Pods", "pods": {"metric": {"name": "rate"}, "target": average("10")}}
    chosen = {"name": "queue", "selector": {"matchLabels": {"name": "work"}}}
    queue = {"type": "External", "external": {"metric": chosen, "target": average("5")}}
    described = {"apiVersion": "v1", "kind": "Service", "name": "front"}
    of_object = {"metric": {"name": "hits"}, "describedObject": described, "target": value("100")}
    server = OtherServer("custom.metrics.k8s.io", "external.metrics.k8s.io")
    custom = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default"
    external = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default"

    def build(parts: Parts) -> HorizontalPodAutoscalers:
        context: Any = msgspec.structs.replace(parts.context, aggregation=server)  # type: ignore[arg-type]
        return HorizontalPodAutoscalers(replace(parts, context=context))

    async with open_bench(tmp_path, "replicaset", more=[(CONTROLLERS[0], build)]) as bench:
        await bench.create("replicasets.apps", replica_set(2))
        await bench.rest(600)
        named = [{"describedObject": {"name": name}, "value": "15"} for name in bench.names("pods")]
        server.responses[f"{custom}/pods/*/rate"] = {"items": named}
        server.responses[f"{custom}/services/front/hits"] = {"items": [{"value": "90"}]}
        server.responses[f"{external}/queue"] = {"items": [{"value": "12"}, {"value": "8"}]}
        metrics = [pods, {"type": "Object", "object": of_object}, queue]
        await bench.create(AUTOSCALERS, autoscaler(*metrics))
        await bench.rest(20)
        assert replicas(bench) == 4
        shown = (
            "external metric queue(&LabelSelector{MatchLabels:map[string]string{name: work,},"
            "MatchExpressions:[]LabelSelectorRequirement{},}) above target"
        )
        assert happened(bench)[-1] == ("SuccessfulRescale", f"New size: 4; reason: {shown}")
        account = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
        assert server.asked[0] == (f"{custom}/pods/*/rate", "labelSelector=app%3Dweb", account)
        assert server.asked[2] == (f"{external}/queue", "labelSelector=name%3Dwork", account)
        statuses = bench.get(AUTOSCALERS, "web")["status"]["currentMetrics"]
        current = [
            one[part]["current"] for one, part in zip(statuses, ("pods", "object", "external"), strict=True)
        ]
        # v1, in whose form v1.25 stores autoscalers, always has a value.
        assert current == [{"averageValue": "15"}, {"value": "90"}, {"value": "0", "averageValue": "10"}]
        server.responses[f"{external}/queue"] = "it is broken"
        server.responses[f"{custom}/services/front/hits"] = "connection refused"
        server.responses[f"{custom}/pods/*/rate"] = "not you"
        await bench.rest(20)
        events = dict(happened(bench))
        of_custom = "unable to fetch metrics from custom metrics API"
        assert events["FailedGetPodsMetric"] == (
            f"unable to get metric rate: {of_custom}: not you (get pods.custom.metrics.k8s.io *)"
        )
        assert events["FailedGetObjectMetric"] == (
            f"unable to get metric hits: Service on default front/{of_custom}: connection refused "
            "(get services.custom.metrics.k8s.io front)"
        )
        assert events["FailedGetExternalMetric"].endswith(
            "unable to fetch metrics from external metrics API: it is broken (get queue.external.metrics.k8s.io)"
        )


async def test_only_who_scaled_to_zero_scales_up_from_there(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    queue = {"type": "External", "external": {"metric": {"name": "queue"}, "target": average("5")}}
    server = OtherServer("external.metrics.k8s.io")
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue"

    def build(parts: Parts) -> HorizontalPodAutoscalers:
        context: Any = msgspec.structs.replace(parts.context, aggregation=server)  # type: ignore[arg-type]
        return HorizontalPodAutoscalers(replace(parts, context=context))

    release = choose_release("1.36", "HPAScaleToZero=true")
    async with open_bench(tmp_path, "replicaset", more=[(CONTROLLERS[0], build)], release=release) as bench:
        await bench.create("replicasets.apps", replica_set(2))
        server.responses[path] = {"items": [{"value": "0"}]}
        await bench.create(AUTOSCALERS, autoscaler(queue, low=0))
        await bench.rest(400)
        assert replicas(bench) == 0 and conditions(bench)["ScaledToZero"] == ("True", "ScaledToZero")
        server.responses[path] = {"items": [{"value": "12"}]}
        await bench.rest(PERIOD + 1)
        assert replicas(bench) == 3 and conditions(bench)["ScaledToZero"] == ("False", "NotScaledToZero")
        await bench.patch("replicasets.apps", "web", {"spec": {"replicas": 0}})
        await bench.rest(60)
        assert replicas(bench) == 0 and conditions(bench)["ScalingActive"] == ("False", "ScalingDisabled")


@pytest.mark.parametrize(("version", "reason"), [("1.33", "FailedRescale"), ("1.34", "SuccessfulRescale")])
async def test_scale_that_changes_meanwhile_is_written_again(
    tmp_path: Path, autojump_clock: MockClock, version: str, reason: str
) -> None:
    async with open_autoscaled(tmp_path, choose_release(version)) as bench:
        changes = 0

        async def change(definition: Definition, command: Command) -> None:
            nonlocal changes
            if isinstance(command, Patch) and command.subresource == "scale" and changes < 2:
                changes += 1
                labels = {"changes": str(changes)}
                await bench.patch("replicasets.apps", "web", {"metadata": {"labels": labels}})

        bench.directory.before = change
        await annotate(bench, cpu="150m")
        await bench.create(AUTOSCALERS, autoscaler())
        await bench.rest(PERIOD + 1)
        assert [one for one, _ in happened(bench)] == [reason]


async def test_usage_of_one_container(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_autoscaled(tmp_path) as bench:
        await annotate(bench, **{"cpu.main": "70m", "memory": "1Ki"})
        apis = MetricsApis(bench.context, bench.workloads.parts.cache.collection("pods"), User("autoscaler"))
        everything = LabelSelector.parse("")
        found = await apis.resource("default", everything, "cpu", "main")
        assert [one.value for one in found.values()] == [70, 70]
        whole = await apis.resource("default", everything, "memory", "")
        assert {one.value for one in whole.values()} == {1024_000}
        with pytest.raises(
            NoReplicaCount, match="failed to get container metrics: container other not present"
        ):
            await apis.resource("default", everything, "cpu", "other")
        nobody = LabelSelector.parse("app=none")
        with pytest.raises(NoReplicaCount, match="no metrics returned from resource metrics API"):
            await apis.resource("default", nobody, "cpu", "")


@cases(
    "item, wrong",
    [
        ({}, "containers|metadata"),
        (7, "items are no objects"),
        ({"metadata": {"name": 7}, "containers": [{"usage": {"cpu": "1"}}]}, "name is no text"),
        ({"metadata": {"name": "a"}, "containers": {"usage": 1}}, "containers is no list"),
        ({"metadata": {"name": "a"}, "containers": [{"usage": ["cpu"]}]}, "usage is no object"),
        ({"metadata": {"name": "a"}, "containers": [{"usage": {"cpu": "much"}}]}, "cpu is no quantity"),
        (
            {"metadata": {"name": "a"}, "containers": [{"usage": {"cpu": "1"}}], "window": 5},
            "window is no text",
        ),
        (
            {"metadata": {"name": "a"}, "containers": [{"usage": {"cpu": "1"}}], "timestamp": "now"},
            "timestamp is no time",
        ),
    ],
)
async def test_malformed_metrics_of_another_server_say_what_is_wrong(
    tmp_path: Path, autojump_clock: MockClock, item: Any, wrong: str
) -> None:
    server = OtherServer(*(f"{part}metrics.k8s.io" for part in ("", "custom.", "external.")))
    where = "v1beta1/namespaces/default"
    server.responses[f"/apis/metrics.k8s.io/{where}/pods"] = {"items": [item]}
    server.responses[f"/apis/custom.metrics.k8s.io/{where}/pods/*/rate"] = {"items": [item]}
    server.responses[f"/apis/external.metrics.k8s.io/{where}/queue"] = {"items": [item]}
    async with open_bench(tmp_path) as bench:
        context: Any = msgspec.structs.replace(bench.context, aggregation=server)  # type: ignore[arg-type]
        apis = MetricsApis(context, bench.workloads.parts.cache.collection("pods"), User("autoscaler"))
        everything = LabelSelector.parse("")
        with pytest.raises(NoReplicaCount, match=f"unable to .*{wrong}"):
            await apis.resource("default", everything, "cpu", "" if item else "main")
        with pytest.raises(NoReplicaCount, match="unable to fetch metrics from custom metrics API: the "):
            await apis.pods("default", everything, "rate", "")
        with pytest.raises(NoReplicaCount, match="unable to fetch metrics from external metrics API: the "):
            await apis.external("default", "queue", "")


async def test_custom_metrics_without_a_server(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_autoscaled(tmp_path) as bench:
        pods = {"type": "Pods", "pods": {"metric": {"name": "rate"}, "target": average("10")}}
        await bench.create(AUTOSCALERS, autoscaler(pods))
        await bench.rest(20)
        assert happened(bench)[-2] == (
            "FailedGetPodsMetric",
            "unable to get metric rate: unable to fetch metrics from custom metrics API: "
            "no custom metrics API (custom.metrics.k8s.io) registered",
        )


def average(text: str) -> Object:
    return {"type": "AverageValue", "averageValue": text}


def value(text: str) -> Object:
    return {"type": "Value", "value": text}


def pod(name: str, phase: str = "Running", ready: str = "True", request: str = "100m", **more: Any) -> Object:
    container = {"name": "c", "resources": {"requests": {"cpu": request}}}
    since = {"type": "Ready", "status": ready, "lastTransitionTime": "2023-11-14T00:00:10Z"}
    return {
        "metadata": {"name": name, **more},
        "spec": {"containers": [container]},
        "status": {"phase": phase, "startTime": "2023-11-14T00:00:00Z", "conditions": [since]},
    }


def result(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def used(**values: int) -> dict[str, PodMetric]:
    return {name: PodMetric(amount, NOW, 0) for name, amount in values.items()}


NOW = 1_700_000_000 * SECOND  # hours later


@cases(
    ("pods", "metrics", "expected"),
    [
        ([pod("a"), pod("b")], used(a=100, b=100), (4, 100)),
        ([pod("a"), pod("b")], used(a=52, b=52), (2, 52)),  # within the tolerance
        ([pod("a"), pod("b")], used(a=10, b=20), (1, 15)),
        ([pod("a"), pod("b"), pod("c")], used(a=100, b=100), (4, 100)),  # c counts as idle
        ([pod("a"), pod("b"), pod("c")], used(a=10, b=10), (3, 10)),  # c counts as using all that it requests
        ([pod("a"), pod("b", "Pending")], used(a=150), (3, 150)),
        ([pod("a"), pod("b", "Pending")], used(a=20), (1, 20)),
        ([pod("a"), pod("b", "Failed"), pod("c", deletionTimestamp="x")], used(a=100, b=9, c=9), (2, 100)),
        ([pod("a"), pod("b", ready="False")], used(a=100, b=1), (2, 100)),  # was never ready
    ],
)
def test_utilization(pods: list[Object], metrics: dict[str, PodMetric], expected: tuple[int, int]) -> None:
    found = result(
        utilization_count(
            pods, metrics, resource="cpu", container="", target=50, replicas=len(pods), rules=RULES, now=NOW
        )
    )
    assert (found.replicas, found.percent) == expected


def test_cpu_of_a_starting_pod_says_nothing() -> None:
    started = 1_699_920_000 * SECOND  # as in `pod`
    early = {"a": PodMetric(400, started + 40 * SECOND, 60 * SECOND)}
    options = {"resource": "cpu", "container": "", "target": 50, "replicas": 1, "rules": RULES}
    with pytest.raises(NoReplicaCount, match="did not receive metrics for any ready pods"):
        result(utilization_count([pod("a")], early, now=started + 50 * SECOND, **options))  # type: ignore[arg-type]
    late = {"a": PodMetric(400, started + 80 * SECOND, 60 * SECOND)}
    found = result(utilization_count([pod("a")], late, now=started + 90 * SECOND, **options))  # type: ignore[arg-type]
    assert found.replicas == 8


def test_average_and_values() -> None:
    pods = [pod("a"), pod("b")]
    options: Any = {"resource": "", "target": 1000, "replicas": 2, "rules": RULES, "now": NOW}
    assert result(average_count(pods, used(a=3000, b=1000), **options)) == (4, 2000, 0)
    assert result(average_count(pods, used(a=500), **options)) == (2, 500, 0)
    assert result(value_count(pods, 3000, target=1000, replicas=2, rules=RULES)) == (6, 3000, 0)
    assert result(value_count([], 3000, target=1000, replicas=0, rules=RULES)) == (3, 3000, 0)
    assert value_per_pod_count(3000, target=1000, replicas=2, rules=RULES) == (3, 1500, 0)
    assert value_per_pod_count(2100, target=1000, replicas=2, rules=RULES) == (2, 1050, 0)
    with pytest.raises(NoReplicaCount, match="no pods returned by selector"):
        result(average_count([], {}, **options))


def test_many_pods_are_counted_in_steps() -> None:
    pods = [pod(f"p{number}") for number in range(300)]
    metrics = used(**{f"p{number}": 100 for number in range(300)})
    options: Any = {"resource": "cpu", "replicas": 300, "rules": RULES, "now": NOW}
    assert sum(1 for _ in utilization_count(pods, metrics, container="", target=50, **options)) >= 600
    assert sum(1 for _ in average_count(pods, metrics, target=1000, **options)) >= 300


def behavior(**up: Any) -> Object:
    rules = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
    down = {**rules, "stabilizationWindowSeconds": 0}
    return {"scaleUp": {**rules, "stabilizationWindowSeconds": 0, **up}, "scaleDown": down}


def test_lowest_recommendation_of_the_window_holds_when_scaling_up() -> None:
    spec = {"minReplicas": 1, "maxReplicas": 100, "behavior": behavior(stabilizationWindowSeconds=60)}
    limits = Limits()
    limits.begin(2, NOW)
    found = limits.decide(spec, 2, 4, 300.0, NOW + SECOND)
    assert found.replicas == 2 and found.stable[0] == "ScaleUpStabilized"
    later = limits.decide(spec, 2, 4, 300.0, NOW + 61 * SECOND)
    assert later.replicas == 4 and later.stable[0] == "ReadyForNewScale" and not later.limited


@cases(("select", "expected"), [("Max", 20), ("Min", 12), ("Disabled", 10)])
def test_policies_choose_the_change(select: str, expected: int) -> None:
    policies = [
        {"type": "Percent", "value": 100, "periodSeconds": 60},
        {"type": "Pods", "value": 2, "periodSeconds": 60},
    ]
    spec = {
        "minReplicas": 1,
        "maxReplicas": 100,
        "behavior": behavior(selectPolicy=select, policies=policies),
    }
    limits = Limits()
    found = limits.decide(spec, 10, 50, 300.0, NOW)
    assert (found.replicas, found.limit[0]) == (expected, "ScaleUpLimit")
    limits.scaled(spec["behavior"], 10, expected, NOW)  # type: ignore[arg-type]
    again = limits.decide(spec, expected, 50, 300.0, NOW + 30 * SECOND)
    assert again.replicas == expected  # until the period has passed
