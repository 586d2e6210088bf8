"""HorizontalPodAutoscaler in v1: one number for the processors, and everything else in annotations.

A client of this version that writes back what it has read changes nothing of what it has no field for: metrics,
behavior, what was measured and conditions travel as JSON in annotations, in the words of this version. Broken
ones are dropped without a word, as they always were.

All autoscalers look as if they were stored in this version, and clients of the others have learned to see that: the
processors come last among the metrics, and what a target is called follows from the values it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson

from actors.kinds.autoscaling.behavior import DIRECTIONS, PARTS, behavior
from actors.kinds.autoscaling.horizontal_pod_autoscaler import AUTOSCALER, TYPE_NAME, drop_round_trip
from actors.kinds.autoscaling.metrics import reference, usual_metric
from actors.kinds.declaration.definition import Conversion, Definition, Storage
from actors.kinds.declaration.label_selector import LABEL_SELECTOR
from actors.kinds.declaration.meta import METADATA, OBJECT_META
from actors.kinds.declaration.workloads import condition_struct
from actors.kinds.schema.exact_decoder import ExactDecoder
from actors.kinds.schema.fields import (
    INT32,
    INT64,
    QUANTITY,
    STRING,
    TIME,
    Field,
    ListOf,
    Struct,
    Type,
)
from actors.messages import Object

REFERENCE = reference("v1")
SPEC = Struct(
    "autoscaling.v1.HorizontalPodAutoscalerSpec",
    Field("scaleTargetRef", REFERENCE, 1, required=True),
    Field("minReplicas", INT32, 2, pointer=True, default=1),
    Field("maxReplicas", INT32, 3, required=True, always=True),
    Field("targetCPUUtilizationPercentage", INT32, 4, pointer=True),
)
STATUS = Struct(
    "autoscaling.v1.HorizontalPodAutoscalerStatus",
    Field("observedGeneration", INT64, 1, pointer=True),
    Field("lastScaleTime", TIME, 2, pointer=True),
    Field("currentReplicas", INT32, 3, required=True, always=True),
    Field("desiredReplicas", INT32, 4, required=True, always=True),
    Field("currentCPUUtilizationPercentage", INT32, 5, pointer=True),
)
AUTOSCALER_1 = Struct(
    "autoscaling.v1.HorizontalPodAutoscaler",
    METADATA,
    Field("spec", SPEC, 2),
    Field("status", STATUS, 3),
)

# What annotations hold.
_METRIC_NAME: Final = Field("metricName", STRING, 1, always=True)
_NAME: Final = Field("name", STRING, 1, always=True)
_CONTAINER: Final = Field("container", STRING, 5, always=True)


def _metric(name: str, *of: tuple[str, Struct]) -> Struct:
    sources = (Field(source, struct, 0, pointer=True) for source, struct in of)
    return Struct(f"autoscaling.v1.{name}", Field("type", STRING, 1, always=True), *sources)


METRIC_SPEC = _metric(
    "MetricSpec",
    (
        "object",
        Struct(
            "autoscaling.v1.ObjectMetricSource",
            Field("target", REFERENCE, 1),
            _METRIC_NAME,
            Field("targetValue", QUANTITY, 3),
            Field("selector", LABEL_SELECTOR, 4, pointer=True),
            Field("averageValue", QUANTITY, 5, pointer=True),
        ),
    ),
    (
        "pods",
        Struct(
            "autoscaling.v1.PodsMetricSource",
            _METRIC_NAME,
            Field("targetAverageValue", QUANTITY, 2),
            Field("selector", LABEL_SELECTOR, 3, pointer=True),
        ),
    ),
    (
        "resource",
        Struct(
            "autoscaling.v1.ResourceMetricSource",
            _NAME,
            Field("targetAverageUtilization", INT32, 2, pointer=True),
            Field("targetAverageValue", QUANTITY, 3, pointer=True),
        ),
    ),
    (
        "containerResource",
        Struct(
            "autoscaling.v1.ContainerResourceMetricSource",
            _NAME,
            Field("targetAverageUtilization", INT32, 2, pointer=True),
            Field("targetAverageValue", QUANTITY, 3, pointer=True),
            _CONTAINER,
        ),
    ),
    (
        "external",
        Struct(
            "autoscaling.v1.ExternalMetricSource",
            _METRIC_NAME,
            Field("metricSelector", LABEL_SELECTOR, 2, pointer=True),
            Field("targetValue", QUANTITY, 3, pointer=True),
            Field("targetAverageValue", QUANTITY, 4, pointer=True),
        ),
    ),
)
METRIC_STATUS = _metric(
    "MetricStatus",
    (
        "object",
        Struct(
            "autoscaling.v1.ObjectMetricStatus",
            Field("target", REFERENCE, 1),
            _METRIC_NAME,
            Field("currentValue", QUANTITY, 3),
            Field("selector", LABEL_SELECTOR, 4, pointer=True),
            Field("averageValue", QUANTITY, 5, pointer=True),
        ),
    ),
    (
        "pods",
        Struct(
            "autoscaling.v1.PodsMetricStatus",
            _METRIC_NAME,
            Field("currentAverageValue", QUANTITY, 2),
            Field("selector", LABEL_SELECTOR, 3, pointer=True),
        ),
    ),
    (
        "resource",
        Struct(
            "autoscaling.v1.ResourceMetricStatus",
            _NAME,
            Field("currentAverageUtilization", INT32, 2, pointer=True),
            Field("currentAverageValue", QUANTITY, 3),
        ),
    ),
    (
        "containerResource",
        Struct(
            "autoscaling.v1.ContainerResourceMetricStatus",
            _NAME,
            Field("currentAverageUtilization", INT32, 2, pointer=True),
            Field("currentAverageValue", QUANTITY, 3),
            _CONTAINER,
        ),
    ),
    (
        "external",
        Struct(
            "autoscaling.v1.ExternalMetricStatus",
            _METRIC_NAME,
            Field("metricSelector", LABEL_SELECTOR, 2, pointer=True),
            Field("currentValue", QUANTITY, 3),
            Field("currentAverageValue", QUANTITY, 4, pointer=True),
        ),
    ),
)
CONDITION = condition_struct("autoscaling.v1.HorizontalPodAutoscalerCondition")
BEHAVIOR = behavior("v2", list_type="atomic")

_SPELLED: Final = {name.lower(): name for name in (*DIRECTIONS, *PARTS, "type", "value", "periodSeconds")}

# Where this version keeps what the stored one has inside: (source, path there) -> name here.
_SHARED: Final[Mapping[str, Mapping[tuple[str, ...], str]]] = {
    "object": {
        ("describedObject",): "target",
        ("metric", "name"): "metricName",
        ("metric", "selector"): "selector",
    },
    "pods": {("metric", "name"): "metricName", ("metric", "selector"): "selector"},
    "resource": {("name",): "name"},
    "containerResource": {("name",): "name", ("container",): "container"},
    "external": {("metric", "name"): "metricName", ("metric", "selector"): "metricSelector"},
}
_VALUES: Final = {
    "object": {"value": "{}Value", "averageValue": "averageValue"},
    "pods": {"averageValue": "{}AverageValue"},
    "resource": {"averageUtilization": "{}AverageUtilization", "averageValue": "{}AverageValue"},
    "containerResource": {"averageUtilization": "{}AverageUtilization", "averageValue": "{}AverageValue"},
    "external": {"value": "{}Value", "averageValue": "{}AverageValue"},
}


def define(keys: Mapping[str, str], stored: Definition) -> Definition:
    """A view of the stored definition, with its rules."""
    return replace(
        stored,
        version="v1",
        fields=AUTOSCALER_1,
        set_defaults=None,
        storage=Storage(
            stored_as=TYPE_NAME,
            conversion=Conversion(
                to_storage=partial(to_storage, keys), from_storage=partial(from_storage, keys)
            ),
        ),
    )


def canonicalize(keys: Mapping[str, str], new: Object) -> None:
    """Keep what survives a round trip through this version: every object is stored that way."""
    kept = to_storage(keys, from_storage(keys, new))
    new["spec"], new["status"] = kept["spec"], kept["status"]


def from_storage(keys: Mapping[str, str], stored: Object) -> Object:
    spec, status = stored.get("spec", {}), stored.get("status", {})
    metrics, found = spec.get("metrics", []), status.get("currentMetrics") or []
    percent = next((_percent(metric) for metric in metrics if _percent(metric) is not None), None)
    used = [one["resource"]["current"].get("averageUtilization") for one in found if _is_of_processors(one)]
    told = {
        keys["metrics"]: [_older(one, "target") for one in metrics if _percent(one) is None],
        keys["current-metrics"]: [_older(one, "current") for one in found],
        keys["conditions"]: status.get("conditions", []),
        keys["behavior"]: _titled(spec["behavior"]) if "behavior" in spec else None,
    }
    shown = {
        **stored,
        "metadata": _annotated(stored["metadata"], told),
        "spec": {**_parts(SPEC, spec), "targetCPUUtilizationPercentage": percent},
        "status": {
            **_parts(STATUS, status),
            "currentCPUUtilizationPercentage": next((one for one in reversed(used) if one is not None), None),
        },
    }
    return ExactDecoder(defaults=False).struct(AUTOSCALER_1, shown)


def _parts(struct: Struct, holder: Object) -> Object:
    return {name: value for name, value in holder.items() if name in struct.by_name}


def _annotated(metadata: Object, told: Mapping[str, Any]) -> Object:
    added = {key: orjson.dumps(value).decode() for key, value in told.items() if value}
    annotations = {**metadata.get("annotations", {}), **added}
    if not annotations:
        return metadata
    return OBJECT_META.arranged({**metadata, "annotations": dict(sorted(annotations.items()))})


def _is_of_processors(metric: Object) -> bool:
    resource = metric.get("resource")
    return metric["type"] == "Resource" and resource is not None and resource["name"] == "cpu"


def _percent(metric: Object) -> int | None:
    """What this version has a field for."""
    if not _is_of_processors(metric):
        return None
    percent: int | None = metric["resource"]["target"].get("averageUtilization")
    return percent


def to_storage(keys: Mapping[str, str], shown: Object) -> Object:
    spec, status = dict(shown.get("spec", {})), dict(shown.get("status", {}))
    annotations = shown["metadata"].get("annotations", {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = _read(ListOf(METRIC_SPEC), annotations.get(keys["metrics"])) or []
    spec["metrics"] = [_newer(one, "target") for one in metrics]
    if percent is not None or not spec["metrics"]:
        spec["metrics"].append(usual_metric() if percent is None else usual_metric(percent))
    pace = _untitled(annotations.get(keys["behavior"]))
    if pace:
        spec["behavior"] = pace
    used = status.pop("currentCPUUtilizationPercentage", None)
    if used is not None:
        current = {"averageUtilization": used}
        status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    measured = _read(ListOf(METRIC_STATUS), annotations.get(keys["current-metrics"]))
    if measured is not None:
        status["currentMetrics"] = [_newer(one, "current") for one in measured]
    conditions = _read(ListOf(CONDITION), annotations.get(keys["conditions"]))
    if conditions is not None:
        status["conditions"] = conditions
    metadata = dict(shown["metadata"])
    drop_round_trip(frozenset(keys.values()), metadata)
    return ExactDecoder(defaults=False).struct(
        AUTOSCALER, {"metadata": metadata, "spec": spec, "status": status}
    )


def _read(type_: Type, text: str | None) -> Any:
    """What an annotation holds; None when it holds nothing that could be read."""
    if text is None:
        return None
    try:
        return ExactDecoder(defaults=False).value(type_, orjson.loads(text))
    except (ValueError, RecursionError):
        return None


def _older(metric: Object, part: str) -> Object:
    """A metric in the words of this version."""
    told: Object = {"type": metric["type"]}
    for source, places in _SHARED.items():
        if source in metric:
            here = metric[source]
            told[source] = {name: _at(here, path) for path, name in places.items()}
            for value, name in _VALUES[source].items():
                told[source][name.format(part)] = here[part].get(value)
    type_ = METRIC_SPEC if part == "target" else METRIC_STATUS
    return ExactDecoder(defaults=False).struct(type_, told)


def _at(holder: Object, path: tuple[str, ...]) -> Any:
    for name in path[:-1]:
        holder = holder[name]
    return holder.get(path[-1])


def _newer(metric: Object, part: str) -> Object:
    """A metric of this version in the words of the stored one."""
    told: Object = {"type": metric["type"]}
    for source, places in _SHARED.items():
        if source in metric:
            here = metric[source]
            made: Object = {}
            told[source] = made
            for path, name in places.items():
                holder = made if len(path) == 1 else made.setdefault(path[0], {})
                holder[path[-1]] = here.get(name)
            values = {value: here.get(name.format(part)) for value, name in _VALUES[source].items()}
            made[part] = {**_target_type(source, values), **values} if part == "target" else values
    return told


def _target_type(source: str, values: Mapping[str, Any]) -> Object:
    """What kind of target it is follows from what is said of it, differently for each source."""
    if source == "external":
        kind = "AverageValue" if values["value"] is None else "Value"
    elif source == "object":
        kind = "Value" if values["averageValue"] is None else "AverageValue"
    elif source == "pods":
        kind = "AverageValue"
    else:
        kind = "AverageValue" if values["averageUtilization"] is None else "Utilization"
    return {"type": kind}


def _titled(pace: Object) -> Object:
    """As its annotation has always been written: capitals first, and null for what is not said."""
    return {
        _capital(direction): None
        if direction not in pace
        else {
            "StabilizationWindowSeconds": pace[direction].get("stabilizationWindowSeconds"),
            "SelectPolicy": pace[direction].get("selectPolicy"),
            "Policies": [
                {_capital(name): value for name, value in policy.items()}
                for policy in pace[direction].get("policies", [])
            ],
        }
        for direction in DIRECTIONS
    }


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


def _untitled(text: str | None) -> Object | None:
    """Names are read whatever their capitals."""
    if text is None:
        return None
    try:
        return ExactDecoder(defaults=False).struct(BEHAVIOR, _spelled(orjson.loads(text)))
    except (ValueError, RecursionError):
        return None


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {_SPELLED.get(name.lower(), name): _spelled(member) for name, member in value.items()}
    return [_spelled(item) for item in value] if isinstance(value, list) else value
