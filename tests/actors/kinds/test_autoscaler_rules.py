"""HorizontalPodAutoscaler: defaults of metrics and behavior, rules of each, features, status, cells."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds import autoscaling
from rewound.actors.kinds.autoscaling import AUTOSCALER_COLUMNS, SCALE_TO_ZERO
from rewound.actors.names import Names
from rewound.actors.versions.features import CONTAINER_METRICS
from tests.actors.kinds.definitions import Definitions, create, replace
from tests.actors.kinds.workload import with_status
from tests.cases import cases

PLURAL = "horizontalpodautoscalers"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def autoscaler(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}}


def metric(kind: str, **source: Any) -> dict[str, Any]:
    return {"type": kind, kind[0].lower() + kind[1:]: source}


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, with_status(autoscaler(), currentReplicas=2))
    assert stored["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": [CPU],
    }
    assert stored["status"] == {"desiredReplicas": 0, "currentMetrics": None}
    assert "generation" not in stored["metadata"] and kinds.create_causes(PLURAL, autoscaler()) == []


def test_partial_behavior_gets_defaults(kinds: Definitions) -> None:
    assert kinds.stored(PLURAL, autoscaler(behavior={}))["spec"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
        },
        "scaleDown": {
            "selectPolicy": "Max",
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
        },
    }
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
    sent = {"scaleDown": {"stabilizationWindowSeconds": 9, "policies": [policy]}}
    assert kinds.stored(PLURAL, autoscaler(behavior=sent))["spec"]["behavior"]["scaleDown"] == {
        "stabilizationWindowSeconds": 9,
        "selectPolicy": "Max",
        "policies": [policy],
    }


@cases(
    ("spec", "expected"),
    [
        ({"minReplicas": 0}, [("minReplicas", "or equal to 1"), ("metrics", "scaling to zero replicas")]),
        ({"maxReplicas": 0}, [("maxReplicas", "greater than 0"), ("maxReplicas", "`minReplicas`")]),
        ({"minReplicas": 5}, [("maxReplicas", "must be greater than or equal to `minReplicas`")]),
        (
            {"scaleTargetRef": {}},
            [("scaleTargetRef.kind", "Required value"), ("scaleTargetRef.name", "Required value")],
        ),
        ({"scaleTargetRef": {"kind": "a/b", "name": "n"}}, [("scaleTargetRef.kind", "may not contain '/'")]),
        (
            {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601, "selectPolicy": "Odd"}}},
            [
                ("behavior.scaleUp.stabilizationWindowSeconds", "less than or equal to 3600"),
                ("behavior.scaleUp.selectPolicy", '"Disabled", "Max", "Min"'),
            ],
        ),
        (
            {"behavior": {"scaleDown": {"stabilizationWindowSeconds": -1}}},
            [("behavior.scaleDown.stabilizationWindowSeconds", "greater than or equal to zero")],
        ),
        (
            {"behavior": {"scaleUp": {"policies": [{"type": "Odd", "value": 0, "periodSeconds": 0}]}}},
            [
                ("behavior.scaleUp.policies[0].type", '"Percent", "Pods"'),
                ("behavior.scaleUp.policies[0].value", "greater than zero"),
                ("behavior.scaleUp.policies[0].periodSeconds", "greater than zero"),
            ],
        ),
        (
            {"behavior": {"scaleUp": {"policies": []}}},
            [("behavior.scaleUp.policies", "must specify at least one Policy")],
        ),
        (
            {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]}}},
            [("behavior.scaleUp.policies[0].periodSeconds", "less than or equal to 1800")],
        ),
    ],
)
def test_create_reports_invalid_fields(
    kinds: Definitions, spec: Any, expected: list[tuple[str, str]]
) -> None:
    causes = kinds.create_causes(PLURAL, autoscaler(**spec))
    assert [field for field, _ in causes] == [f"spec.{field}" for field, _ in expected]
    assert all(text.endswith(end) for (_, text), (_, end) in zip(causes, expected, strict=True)), causes


NAMED = {"name": "m"}
VALUE = {"type": "Value", "value": "5"}
AVERAGE = {"type": "AverageValue", "averageValue": "5"}


@cases(
    ("measured", "expected"),
    [
        (metric("Object", describedObject=TARGET, metric=NAMED, target=VALUE), []),
        (metric("Object", describedObject=TARGET, metric=NAMED, target=AVERAGE), []),
        (metric("Pods", metric=NAMED, target=AVERAGE), []),
        (metric("External", metric={**NAMED, "selector": {}}, target=VALUE), []),
        (metric("Resource", name="memory", target=AVERAGE), []),
        (
            metric("Object", describedObject={"kind": "K"}, metric={"name": ""}, target={"type": "Value"}),
            ["object.describedObject.name", "object.metric.name", "object.target.averageValue"],
        ),
        (metric("External", metric=NAMED, target={**VALUE, **AVERAGE}), ["external.target.value"]),
        (metric("External", metric=NAMED, target={"type": "Value"}), ["external.target.averageValue"]),
        (metric("Pods", metric={"name": "a/b"}, target=AVERAGE), ["pods.metric.name"]),
        (metric("Pods", metric=NAMED, target=VALUE), ["pods.target.averageValue"]),
        (metric("Resource", name="", target=AVERAGE), ["resource.name"]),
        (metric("Resource", name="cpu", target=VALUE), ["resource.target.averageUtilization"]),
        (
            metric("Resource", name="cpu", target={**AVERAGE, "averageUtilization": 0}),
            ["resource.target.averageUtilization", "resource.target.averageValue"],
        ),
        (
            metric("Resource", name="cpu", target={"averageValue": "0"}),
            ["resource.target.type", "resource.target.type", "resource.target.averageValue"],
        ),
        ({"type": ""}, ["type", "type", "type"]),
        ({"type": "Odd"}, ["type", "type"]),
        ({"type": "Pods"}, ["pods"]),
        ({**CPU, **metric("Pods", metric=NAMED, target=AVERAGE), "type": "Resource"}, ["pods"]),
        ({**CPU, "type": "Pods"}, ["pods"]),
        (
            metric("ContainerResource", name="cpu", container="c", target=AVERAGE),
            ["containerResource"],
        ),
    ],
)
def test_create_reports_invalid_metrics(kinds: Definitions, measured: Any, expected: list[str]) -> None:
    causes = kinds.create_causes(PLURAL, autoscaler(metrics=[measured]))
    assert [field for field, _ in causes] == [f"spec.metrics[0].{field}" for field in expected]


def test_container_metrics_need_their_feature(kinds: Definitions, names: Names) -> None:
    sent = autoscaler(metrics=[metric("ContainerResource", name="cpu", container="c", target=AVERAGE)])
    assert kinds.create_causes(PLURAL, sent)[0][1].endswith(
        "(only allowed when HPAContainerMetrics feature is enabled)"
    )
    definition = autoscaling.define_autoscaler(names, frozenset((CONTAINER_METRICS,)))[0]
    assert create(definition, definition.schema.decode_object(sent).object)[1] == []
    new = definition.schema.decode_object(sent).object
    new["spec"]["metrics"][0]["containerResource"] |= {"name": "", "container": ""}
    assert [field for field, _ in create(definition, new)[1]] == [
        "spec.metrics[0].containerResource.name",
        "spec.metrics[0].containerResource.container",
    ]


def test_scaling_to_zero_needs_its_feature(kinds: Definitions, names: Names) -> None:
    definition = autoscaling.define_autoscaler(names, frozenset((SCALE_TO_ZERO,)))[0]
    outside = [metric("External", metric=NAMED, target=VALUE)]
    zero = definition.schema.decode_object(autoscaler(minReplicas=0, metrics=outside)).object
    stored, causes = create(definition, zero)
    assert causes == []
    ordinary = kinds[PLURAL]
    assert [field for field, _ in create(ordinary, zero)[1]] == ["spec.minReplicas"]
    assert replace(ordinary, stored, stored)[1] == []


def test_status_subresource_changes_only_the_status(kinds: Definitions) -> None:
    found = with_status(autoscaler(maxReplicas=9), currentReplicas=2, desiredReplicas=3)
    new, causes = kinds.update(PLURAL, autoscaler(), found, "status")
    assert causes == [] and new["spec"]["maxReplicas"] == 3
    assert new["status"] == {"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": None}
    wrong = with_status(autoscaler(), currentReplicas=-1, desiredReplicas=-1)
    assert [field for field, _ in kinds.update(PLURAL, autoscaler(), wrong, "status")[1]] == [
        "status.currentReplicas",
        "status.desiredReplicas",
    ]


@cases(
    ("metrics", "found", "text"),
    [
        ([CPU], [], "<unknown>/80%"),
        (
            [CPU],
            [metric("Resource", name="cpu", current={"averageUtilization": 5})],
            "5%/80%",
        ),
        ([metric("Pods", metric=NAMED, target=AVERAGE)], [], "<unknown>/5"),
        (
            [metric("External", metric=NAMED, target=AVERAGE)],
            [metric("External", metric=NAMED, current={"averageValue": "3"})],
            "3/5 (avg)",
        ),
        (
            [metric("Object", describedObject=TARGET, metric=NAMED, target=VALUE)],
            [metric("Object", describedObject=TARGET, metric=NAMED, current={"value": "3"})],
            "3/5",
        ),
        (
            [CPU, *[metric("Pods", metric=NAMED, target=AVERAGE)] * 3],
            [],
            "<unknown>/5, <unknown>/5 + 2 more...",
        ),
    ],
)
def test_table_cells_are_computed_from_the_object(
    kinds: Definitions, metrics: Any, found: Any, text: str
) -> None:
    stored = kinds.stored(PLURAL, autoscaler(metrics=metrics))
    stored["status"]["currentMetrics"] = found
    cells = {column.name: column.cell(stored, 0) for column in AUTOSCALER_COLUMNS if not column.since}
    assert (cells["Reference"], cells["Targets"]) == ("Deployment/d", text)
    assert (cells["MinPods"], cells["MaxPods"], cells["Replicas"]) == ("1", 3, 0)
