"""HorizontalPodAutoscaler in three versions: conversions, and writing back what was read changes nothing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.names import Names
from tests.actors.kinds.declared import Declared
from tests.actors.kinds.test_autoscaler_rules import AVERAGE, CPU, NAMED, TARGET, VALUE, autoscaler, metric

PLURAL = "horizontalpodautoscalers"
FIRST, BETA = f"{PLURAL}/v1", f"{PLURAL}/v2beta2"
MEASURED = [
    metric("Resource", name="cpu", current={"averageUtilization": 7, "averageValue": "2"}),
    metric("Pods", metric=NAMED, current={"averageValue": "3"}),
    metric("External", metric={**NAMED, "selector": {"matchLabels": {"a": "b"}}}, current={"value": "9"}),
    metric("Object", describedObject=TARGET, metric=NAMED, current={"value": "1", "averageValue": "2"}),
]
HOLDS = [{"type": "AbleToScale", "status": "True", "lastTransitionTime": None, "reason": "r"}]


def shown(kinds: Declared, version: str, stored: dict[str, Any]) -> dict[str, Any]:
    conversion = kinds[version].storage.conversion
    assert conversion is not None
    return conversion.from_storage(stored)


def kept(kinds: Declared, version: str, document: dict[str, Any]) -> dict[str, Any]:
    conversion = kinds[version].storage.conversion
    assert conversion is not None
    decoded = kinds[version].schema.decode_json(orjson.dumps(document))
    assert decoded.problems == ()
    return conversion.to_storage(decoded.object)


def full(kinds: Declared, *metrics: Any) -> dict[str, Any]:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 9}}
    stored = kinds.stored(PLURAL, autoscaler(metrics=list(metrics), behavior=behavior))
    stored["status"] = {
        "observedGeneration": 1,
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentMetrics": MEASURED,
        "conditions": HOLDS,
    }
    return stored


def test_the_first_version_has_one_number(kinds: Declared) -> None:
    seen = shown(kinds, FIRST, kinds.stored(PLURAL, autoscaler()))
    assert seen["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 80,
    }
    assert seen["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert "annotations" not in seen["metadata"]


def test_and_the_rest_in_annotations(kinds: Declared, names: Names) -> None:
    seen = shown(kinds, FIRST, full(kinds, metric("Pods", metric=NAMED, target=AVERAGE), CPU))
    told = {
        key.rpartition("/")[2]: orjson.loads(text) for key, text in seen["metadata"]["annotations"].items()
    }
    assert set(seen["metadata"]["annotations"]) == {names.key(part, "autoscaling.alpha") for part in told}
    assert told["metrics"] == [{"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}}]
    assert told["current-metrics"][0] == {
        "type": "Resource",
        "resource": {"name": "cpu", "currentAverageUtilization": 7, "currentAverageValue": "2"},
    }
    assert told["current-metrics"][2]["external"] == {
        "metricName": "m",
        "metricSelector": {"matchLabels": {"a": "b"}},
        "currentValue": "9",
    }
    assert told["conditions"] == HOLDS
    assert told["behavior"]["ScaleDown"] == {
        "StabilizationWindowSeconds": 9,
        "SelectPolicy": "Max",
        "Policies": [{"Type": "Percent", "Value": 100, "PeriodSeconds": 15}],
    }
    assert seen["spec"]["targetCPUUtilizationPercentage"] == 80
    assert seen["status"]["currentCPUUtilizationPercentage"] == 7


@pytest.mark.parametrize(
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
def test_what_was_read_may_be_written_back(kinds: Declared, metrics: Any) -> None:
    stored = full(kinds, *metrics)
    # Older clients cannot tell a measured nothing from one that was not measured.
    stored["status"]["currentMetrics"] = [MEASURED[0], MEASURED[1], MEASURED[3]]
    for version in (FIRST, BETA):
        again = kept(kinds, version, shown(kinds, version, stored))
        assert again == stored and list(again["spec"]) == list(stored["spec"])


def test_the_first_version_makes_what_the_last_would(kinds: Declared) -> None:
    least = kept(kinds, FIRST, autoscaler())
    assert least["spec"] == kinds.stored(PLURAL, autoscaler())["spec"]
    half = kept(kinds, FIRST, autoscaler(targetCPUUtilizationPercentage=50))
    assert half["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50
    used = {**autoscaler(), "status": {"currentCPUUtilizationPercentage": 4}}
    assert kept(kinds, FIRST, used)["status"]["currentMetrics"] == [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 4}}}
    ]


def test_broken_annotations_are_dropped(kinds: Declared, names: Names) -> None:
    broken = {
        names.key("metrics", "autoscaling.alpha"): "{",
        names.key("current-metrics", "autoscaling.alpha"): '{"a": 1}',
        names.key("conditions", "autoscaling.alpha"): "5",
        names.key("behavior", "autoscaling.alpha"): "[]",
    }
    document = autoscaler()
    document["metadata"]["annotations"] = {**broken, "mine": "1"}
    stored = kept(kinds, FIRST, document)
    assert stored["metadata"]["annotations"] == {"mine": "1"} and stored["spec"]["metrics"] == [CPU]
    assert "behavior" not in stored["spec"]
    for version in (PLURAL, BETA):
        assert kinds.stored(version, document)["metadata"]["annotations"] == {"mine": "1"}


def test_the_beta_shows_empty_parts(kinds: Declared) -> None:
    seen = shown(kinds, BETA, kinds.stored(PLURAL, autoscaler()))
    assert seen["status"] == {
        "currentReplicas": 0,
        "desiredReplicas": 0,
        "currentMetrics": None,
        "conditions": None,
    }
    assert kinds[BETA].deprecation_warning.startswith(
        "autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated"
    )
    assert not kinds[FIRST].deprecation_warning and not kinds[PLURAL].deprecation_warning


def test_all_versions_have_the_same_rules(kinds: Declared) -> None:
    for version in (PLURAL, FIRST, BETA):
        assert [field for field, _ in kinds.created(version, autoscaler(maxReplicas=0, minReplicas=1))] == [
            "spec.maxReplicas",
            "spec.maxReplicas",
        ]
    assert [field for field, _ in kinds.created(FIRST, autoscaler(targetCPUUtilizationPercentage=0))] == [
        "spec.metrics[0].resource.target.averageUtilization"
    ]


def settled(kinds: Declared, *metrics: Any, **spec: Any) -> dict[str, Any]:
    stored = kinds.stored(PLURAL, autoscaler(metrics=list(metrics), **spec))
    kinds[PLURAL].strategy.canonicalize(stored)
    return stored


def test_processors_come_last_once_an_autoscaler_is_stored(kinds: Declared) -> None:
    pods = metric("Pods", metric=NAMED, target=AVERAGE)
    again = metric("Resource", name="cpu", target={"type": "Utilization", "averageUtilization": 9})
    assert settled(kinds, CPU, pods, again)["spec"]["metrics"] == [pods, CPU]


@pytest.mark.parametrize(
    ("source", "sent", "kept_as"),
    [
        ({"describedObject": TARGET}, AVERAGE, {**AVERAGE, "value": "0"}),
        ({"describedObject": TARGET}, {**VALUE, "type": "Utilization"}, VALUE),
    ],
)
def test_what_a_target_is_called_follows_from_its_values(
    kinds: Declared, source: Any, sent: Any, kept_as: Any
) -> None:
    [told] = settled(kinds, metric("Object", **source, metric=NAMED, target=sent))["spec"]["metrics"]
    assert told["object"]["target"] == kept_as


def test_settling_keeps_all_else(kinds: Declared) -> None:
    stored = full(kinds, metric("Pods", metric=NAMED, target=AVERAGE), CPU)
    before = orjson.loads(orjson.dumps(stored))
    kinds[PLURAL].strategy.canonicalize(stored)
    for part in ("metadata", "spec"):
        assert stored[part] == before[part]
    assert {**stored["status"], "currentMetrics": None} == {**before["status"], "currentMetrics": None}


def test_the_first_version_leaves_an_incomplete_pace_to_validation(kinds: Declared, names: Names) -> None:
    pace = orjson.dumps({"ScaleUp": {"SelectPolicy": "Max"}}).decode()
    document = {
        "metadata": {"name": "a", "annotations": {names.key("behavior", "autoscaling.alpha"): pace}},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3},
    }
    assert [field for field, _ in kinds.created(FIRST, document)] == ["spec.behavior.scaleUp.policies"]
