"""HorizontalPodAutoscaler in three versions: conversions, and writing back what was read changes nothing."""

from __future__ import annotations

from typing import Any

import orjson

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES, Names
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.test_autoscaler_rules import AVERAGE, CPU, NAMED, TARGET, VALUE, autoscaler, metric
from tests.cases import cases

PLURAL = "horizontalpodautoscalers"
V1, V2BETA2 = f"{PLURAL}/v1", f"{PLURAL}/v2beta2"
CURRENT_METRICS = [
    metric("Resource", name="cpu", current={"averageUtilization": 7, "averageValue": "2"}),
    metric("Pods", metric=NAMED, current={"averageValue": "3"}),
    metric("External", metric={**NAMED, "selector": {"matchLabels": {"a": "b"}}}, current={"value": "9"}),
    metric("Object", describedObject=TARGET, metric=NAMED, current={"value": "1", "averageValue": "2"}),
]
CONDITIONS = [{"type": "AbleToScale", "status": "True", "lastTransitionTime": None, "reason": "r"}]


def from_storage(kinds: Definitions, version: str, stored: dict[str, Any]) -> dict[str, Any]:
    conversion = kinds[version].storage.conversion
    assert conversion is not None
    return conversion.from_storage(stored)


def to_storage(kinds: Definitions, version: str, document: dict[str, Any]) -> dict[str, Any]:
    conversion = kinds[version].storage.conversion
    assert conversion is not None
    decoded = kinds[version].schema.decode_json(orjson.dumps(document))
    assert decoded.problems == ()
    return conversion.to_storage(decoded.object)


def full(kinds: Definitions, *metrics: Any) -> dict[str, Any]:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 9}}
    stored = kinds.stored(PLURAL, autoscaler(metrics=list(metrics), behavior=behavior))
    stored["status"] = {
        "observedGeneration": 1,
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentMetrics": CURRENT_METRICS,
        "conditions": CONDITIONS,
    }
    return stored


def test_v1_shows_cpu_utilization_as_a_field(kinds: Definitions) -> None:
    seen = from_storage(kinds, V1, kinds.stored(PLURAL, autoscaler()))
    assert seen["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 80,
    }
    assert seen["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert "annotations" not in seen["metadata"]


def test_v1_shows_other_metrics_in_annotations(kinds: Definitions, names: Names) -> None:
    seen = from_storage(kinds, V1, full(kinds, metric("Pods", metric=NAMED, target=AVERAGE), CPU))
    converted = {
        key.rpartition("/")[2]: orjson.loads(text) for key, text in seen["metadata"]["annotations"].items()
    }
    assert set(seen["metadata"]["annotations"]) == {
        names.key(part, "autoscaling.alpha") for part in converted
    }
    assert converted["metrics"] == [{"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}}]
    assert converted["current-metrics"][0] == {
        "type": "Resource",
        "resource": {"name": "cpu", "currentAverageUtilization": 7, "currentAverageValue": "2"},
    }
    assert converted["current-metrics"][2]["external"] == {
        "metricName": "m",
        "metricSelector": {"matchLabels": {"a": "b"}},
        "currentValue": "9",
    }
    assert converted["conditions"] == CONDITIONS
    assert converted["behavior"]["ScaleDown"] == {
        "StabilizationWindowSeconds": 9,
        "SelectPolicy": "Max",
        "Policies": [{"Type": "Percent", "Value": 100, "PeriodSeconds": 15}],
    }
    assert seen["spec"]["targetCPUUtilizationPercentage"] == 80
    assert seen["status"]["currentCPUUtilizationPercentage"] == 7


@cases(
    "metrics",
    [
        [CPU],
        [metric("Pods", metric=NAMED, target=AVERAGE), CPU],
        [metric("External", metric=NAMED, target=VALUE)],
        [metric("External", metric=NAMED, target=AVERAGE)],
        [metric("Object", describedObject=TARGET, metric=NAMED, target=VALUE)],
        [metric("Resource", name="memory", target=AVERAGE)],
    ],
)
def test_writing_back_what_was_read_changes_nothing(kinds: Definitions, metrics: Any) -> None:
    stored = full(kinds, *metrics)
    # v1 cannot represent the difference between zero and an absent value.
    stored["status"]["currentMetrics"] = [CURRENT_METRICS[0], CURRENT_METRICS[1], CURRENT_METRICS[3]]
    for version in (V1, V2BETA2):
        again = to_storage(kinds, version, from_storage(kinds, version, stored))
        assert again == stored and list(again["spec"]) == list(stored["spec"])


def test_create_in_v1_stores_the_same_as_in_v2(kinds: Definitions) -> None:
    minimal = to_storage(kinds, V1, autoscaler())
    assert minimal["spec"] == kinds.stored(PLURAL, autoscaler())["spec"]
    half = to_storage(kinds, V1, autoscaler(targetCPUUtilizationPercentage=50))
    assert half["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50
    used = {**autoscaler(), "status": {"currentCPUUtilizationPercentage": 4}}
    assert to_storage(kinds, V1, used)["status"]["currentMetrics"] == [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 4}}}
    ]


def test_undecodable_annotations_are_dropped(kinds: Definitions, names: Names) -> None:
    broken = {
        names.key("metrics", "autoscaling.alpha"): "{",
        names.key("current-metrics", "autoscaling.alpha"): '{"a": 1}',
        names.key("conditions", "autoscaling.alpha"): "5",
        names.key("behavior", "autoscaling.alpha"): "[]",
    }
    document = autoscaler()
    document["metadata"]["annotations"] = {**broken, "mine": "1"}
    stored = to_storage(kinds, V1, document)
    assert stored["metadata"]["annotations"] == {"mine": "1"} and stored["spec"]["metrics"] == [CPU]
    assert "behavior" not in stored["spec"]
    for version in (PLURAL, V2BETA2):
        assert kinds.stored(version, document)["metadata"]["annotations"] == {"mine": "1"}


def test_v2beta2_shows_empty_status_fields_as_null(kinds: Definitions) -> None:
    seen = from_storage(kinds, V2BETA2, kinds.stored(PLURAL, autoscaler()))
    assert seen["status"] == {
        "currentReplicas": 0,
        "desiredReplicas": 0,
        "currentMetrics": None,
        "conditions": None,
    }
    assert kinds[V2BETA2].deprecation_warning.startswith(
        "autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated"
    )
    assert not kinds[V1].deprecation_warning and not kinds[PLURAL].deprecation_warning


def test_all_versions_have_the_same_validation(kinds: Definitions) -> None:
    for version in (PLURAL, V1, V2BETA2):
        assert [
            field for field, _ in kinds.create_causes(version, autoscaler(maxReplicas=0, minReplicas=1))
        ] == [
            "spec.maxReplicas",
            "spec.maxReplicas",
        ]
    assert [field for field, _ in kinds.create_causes(V1, autoscaler(targetCPUUtilizationPercentage=0))] == [
        "spec.metrics[0].resource.target.averageUtilization"
    ]


def canonicalized(kinds: Definitions, *metrics: Any, **spec: Any) -> dict[str, Any]:
    stored = kinds.stored(PLURAL, autoscaler(metrics=list(metrics), **spec))
    kinds[PLURAL].strategy.canonicalize(stored)
    return stored


def test_canonicalize_moves_the_cpu_metric_to_the_end(kinds: Definitions) -> None:
    pods = metric("Pods", metric=NAMED, target=AVERAGE)
    again = metric("Resource", name="cpu", target={"type": "Utilization", "averageUtilization": 9})
    assert canonicalized(kinds, CPU, pods, again)["spec"]["metrics"] == [pods, CPU]


def test_autoscalers_are_stored_as_sent_since_1_27() -> None:
    for version, as_v1 in (("1.26", True), ("1.27", False)):
        kinds = Definitions(built_in(KUBERNETES, choose_release(version)))
        for served in (PLURAL, V1):
            assert (kinds[served].strategy.canonicalize is not None) is as_v1


@cases(
    ("source", "sent", "stored_as"),
    [
        ({"describedObject": TARGET}, AVERAGE, {**AVERAGE, "value": "0"}),
        ({"describedObject": TARGET}, {**VALUE, "type": "Utilization"}, VALUE),
    ],
)
def test_canonicalize_derives_the_target_type_from_its_values(
    kinds: Definitions, source: Any, sent: Any, stored_as: Any
) -> None:
    [converted] = canonicalized(kinds, metric("Object", **source, metric=NAMED, target=sent))["spec"][
        "metrics"
    ]
    assert converted["object"]["target"] == stored_as


def test_canonicalize_changes_nothing_else(kinds: Definitions) -> None:
    stored = full(kinds, metric("Pods", metric=NAMED, target=AVERAGE), CPU)
    before = orjson.loads(orjson.dumps(stored))
    kinds[PLURAL].strategy.canonicalize(stored)
    for part in ("metadata", "spec"):
        assert stored[part] == before[part]
    assert {**stored["status"], "currentMetrics": None} == {**before["status"], "currentMetrics": None}


def test_v1_behavior_without_policies_is_invalid(kinds: Definitions, names: Names) -> None:
    behavior = orjson.dumps({"ScaleUp": {"SelectPolicy": "Max"}}).decode()
    document = {
        "metadata": {"name": "a", "annotations": {names.key("behavior", "autoscaling.alpha"): behavior}},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3},
    }
    assert [field for field, _ in kinds.create_causes(V1, document)] == ["spec.behavior.scaleUp.policies"]
