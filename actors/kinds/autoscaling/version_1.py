"""HorizontalPodAutoscaler in v1: a target for CPU utilization, and everything else in annotations.

A v1 client that writes back what it has read loses nothing that v1 has no field for: annotations carry metrics,
behavior, current metrics and conditions as JSON, with the field names of v1. The server drops annotations that it
cannot decode, without an error, as Kubernetes does.

Kubernetes stores autoscalers as v1, and clients of other versions see the effects: the CPU metric is the last of the
metrics, and the type of a target follows from the values that it has. `canonicalize` reproduces both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson

from actors.go_json import dumps
from actors.kinds.autoscaling.behavior import DIRECTIONS, RULES_FIELDS, behavior
from actors.kinds.autoscaling.horizontal_pod_autoscaler import AUTOSCALER, TYPE_NAME, drop_round_trip
from actors.kinds.autoscaling.metrics import cpu_metric, reference
from actors.kinds.declaration.definition import Conversion, Definition, Storage
from actors.kinds.declaration.meta import LABEL_SELECTOR, METADATA, OBJECT_META
from actors.kinds.declaration.workloads import condition_struct
from actors.kinds.schema.exact_decoder import ExactDecoder
from actors.kinds.schema.fields import INT32, INT64, QUANTITY, STRING, TIME, Field, ListOf, Struct, Type
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
AUTOSCALER_V1 = Struct(
    "autoscaling.v1.HorizontalPodAutoscaler",
    METADATA,
    Field("spec", SPEC, 2),
    Field("status", STATUS, 3),
)

# Structs of the JSON in annotations.
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

_FIELD_NAMES: Final = {
    name.lower(): name for name in (*DIRECTIONS, *RULES_FIELDS, "type", "value", "periodSeconds")
}

# By source: path in v2 -> field name in v1.
_V1_NAMES: Final[Mapping[str, Mapping[tuple[str, ...], str]]] = {
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
_V1_VALUE_NAMES: Final = {
    "object": {"value": "{}Value", "averageValue": "averageValue"},
    "pods": {"averageValue": "{}AverageValue"},
    "resource": {"averageUtilization": "{}AverageUtilization", "averageValue": "{}AverageValue"},
    "containerResource": {"averageUtilization": "{}AverageUtilization", "averageValue": "{}AverageValue"},
    "external": {"value": "{}Value", "averageValue": "{}AverageValue"},
}


def define(keys: Mapping[str, str], stored: Definition) -> Definition:
    """The v1 definition: the stored one with another schema and a conversion."""
    return replace(
        stored,
        version="v1",
        fields=AUTOSCALER_V1,
        set_defaults=None,
        storage=Storage(
            stored_as=TYPE_NAME,
            conversion=Conversion(
                to_storage=partial(to_storage, keys), from_storage=partial(from_storage, keys)
            ),
        ),
    )


def canonicalize(keys: Mapping[str, str], new: Object) -> None:
    """Keep what survives a conversion to v1 and back, because Kubernetes stores autoscalers as v1."""
    kept = to_storage(keys, from_storage(keys, new))
    new["spec"], new["status"] = kept["spec"], kept["status"]


def from_storage(keys: Mapping[str, str], stored: Object) -> Object:
    spec, status = stored.get("spec", {}), stored.get("status", {})
    metrics, current = spec.get("metrics", []), status.get("currentMetrics") or []
    percent = next(
        (_cpu_utilization(metric) for metric in metrics if _cpu_utilization(metric) is not None), None
    )
    used = [one["resource"]["current"].get("averageUtilization") for one in current if _is_cpu(one)]
    annotations = {
        keys["metrics"]: [_metric_to_v1(one, "target") for one in metrics if _cpu_utilization(one) is None],
        keys["current-metrics"]: [_metric_to_v1(one, "current") for one in current],
        keys["conditions"]: status.get("conditions", []),
        keys["behavior"]: _behavior_to_v1(spec["behavior"]) if "behavior" in spec else None,
    }
    converted = {
        **stored,
        "metadata": _with_annotations(stored["metadata"], annotations),
        "spec": {**_common_fields(SPEC, spec), "targetCPUUtilizationPercentage": percent},
        "status": {
            **_common_fields(STATUS, status),
            "currentCPUUtilizationPercentage": next((one for one in reversed(used) if one is not None), None),
        },
    }
    return ExactDecoder(defaults=False).struct(AUTOSCALER_V1, converted)


def _common_fields(struct: Struct, holder: Object) -> Object:
    return {name: value for name, value in holder.items() if name in struct.by_name}


def _with_annotations(metadata: Object, values: Mapping[str, Any]) -> Object:
    added = {key: dumps(value).decode() for key, value in values.items() if value}
    annotations = {**metadata.get("annotations", {}), **added}
    if not annotations:
        return metadata
    return OBJECT_META.arranged({**metadata, "annotations": dict(sorted(annotations.items()))})


def _is_cpu(metric: Object) -> bool:
    resource = metric.get("resource")
    return metric["type"] == "Resource" and resource is not None and resource["name"] == "cpu"


def _cpu_utilization(metric: Object) -> int | None:
    """The utilization for which v1 has a field: that of a CPU metric."""
    if not _is_cpu(metric):
        return None
    percent: int | None = metric["resource"]["target"].get("averageUtilization")
    return percent


def to_storage(keys: Mapping[str, str], sent: Object) -> Object:
    spec, status = dict(sent.get("spec", {})), dict(sent.get("status", {}))
    annotations = sent["metadata"].get("annotations", {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = _decoded(ListOf(METRIC_SPEC), annotations.get(keys["metrics"])) or []
    spec["metrics"] = [_metric_from_v1(one, "target") for one in metrics]
    if percent is not None or not spec["metrics"]:
        spec["metrics"].append(cpu_metric() if percent is None else cpu_metric(percent))
    behavior = _behavior_from_v1(annotations.get(keys["behavior"]))
    if behavior:
        spec["behavior"] = behavior
    used = status.pop("currentCPUUtilizationPercentage", None)
    if used is not None:
        current = {"averageUtilization": used}
        status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    measured = _decoded(ListOf(METRIC_STATUS), annotations.get(keys["current-metrics"]))
    if measured is not None:
        status["currentMetrics"] = [_metric_from_v1(one, "current") for one in measured]
    conditions = _decoded(ListOf(CONDITION), annotations.get(keys["conditions"]))
    if conditions is not None:
        status["conditions"] = conditions
    metadata = dict(sent["metadata"])
    drop_round_trip(frozenset(keys.values()), metadata)
    return ExactDecoder(defaults=False).struct(
        AUTOSCALER, {"metadata": metadata, "spec": spec, "status": status}
    )


def _decoded(type_: Type, text: str | None) -> Any:
    """The value in an annotation; None when it cannot be decoded."""
    if text is None:
        return None
    try:
        return ExactDecoder(defaults=False).value(type_, orjson.loads(text))
    except (ValueError, RecursionError):
        return None


def _metric_to_v1(metric: Object, part: str) -> Object:
    """A v2 metric with the field names of v1."""
    converted: Object = {"type": metric["type"]}
    for source, places in _V1_NAMES.items():
        if source in metric:
            here = metric[source]
            converted[source] = {name: _at(here, path) for path, name in places.items()}
            for value, name in _V1_VALUE_NAMES[source].items():
                converted[source][name.format(part)] = here[part].get(value)
    type_ = METRIC_SPEC if part == "target" else METRIC_STATUS
    return ExactDecoder(defaults=False).struct(type_, converted)


def _at(holder: Object, path: tuple[str, ...]) -> Any:
    for name in path[:-1]:
        holder = holder[name]
    return holder.get(path[-1])


def _metric_from_v1(metric: Object, part: str) -> Object:
    """A v1 metric with the field names of v2."""
    converted: Object = {"type": metric["type"]}
    for source, places in _V1_NAMES.items():
        if source in metric:
            here = metric[source]
            fields: Object = {}
            converted[source] = fields
            for path, name in places.items():
                holder = fields if len(path) == 1 else fields.setdefault(path[0], {})
                holder[path[-1]] = here.get(name)
            values = {value: here.get(name.format(part)) for value, name in _V1_VALUE_NAMES[source].items()}
            fields[part] = {**_target_type(source, values), **values} if part == "target" else values
    return converted


def _target_type(source: str, values: Mapping[str, Any]) -> Object:
    """The type of a target, which v1 lacks, follows from its values, by rules that differ by source."""
    if source == "external":
        kind = "AverageValue" if values["value"] is None else "Value"
    elif source == "object":
        kind = "Value" if values["averageValue"] is None else "AverageValue"
    elif source == "pods":
        kind = "AverageValue"
    else:
        kind = "AverageValue" if values["averageUtilization"] is None else "Utilization"
    return {"type": kind}


def _behavior_to_v1(behavior: Object) -> Object:
    """Behavior as Kubernetes writes it into the annotation: names with an initial capital, null for absent fields."""
    return {
        _capitalized(direction): None
        if direction not in behavior
        else {
            "StabilizationWindowSeconds": behavior[direction].get("stabilizationWindowSeconds"),
            "SelectPolicy": behavior[direction].get("selectPolicy"),
            "Policies": [
                {_capitalized(name): value for name, value in policy.items()}
                for policy in behavior[direction].get("policies", [])
            ],
        }
        for direction in DIRECTIONS
    }


def _capitalized(name: str) -> str:
    return name[0].upper() + name[1:]


def _behavior_from_v1(text: str | None) -> Object | None:
    """Decode the annotation; field names are case-insensitive."""
    if text is None:
        return None
    try:
        return ExactDecoder(defaults=False).struct(BEHAVIOR, _with_field_names(orjson.loads(text)))
    except (ValueError, RecursionError):
        return None


def _with_field_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            _FIELD_NAMES.get(name.lower(), name): _with_field_names(member) for name, member in value.items()
        }
    return [_with_field_names(item) for item in value] if isinstance(value, list) else value
