"""What an autoscaler looks at: metrics of resources, of pods, of an object, or of something outside.

Two versions have the same structs under names of their own, so they are made by functions of the version.
`containerResource` belongs to a feature that is off unless asked for.
"""

from __future__ import annotations

from typing import Any, Final

from actors.kinds.core.resources import container_name_rules
from actors.kinds.declaration.label_selector import LABEL_SELECTOR
from actors.kinds.features import CONTAINER_METRICS
from actors.kinds.schema.fields import INT32, QUANTITY, STRING, Field, Struct
from actors.kinds.validation.checks import (
    FieldError,
    dns_label,
    each,
    forbidden,
    invalid,
    name_is_path_segment,
    not_supported,
    required,
)
from actors.kinds.values.quantity import nanos_of
from actors.messages import Object

TYPES: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")
TARGET_TYPES: Final = ("Utilization", "Value", "AverageValue")
SOURCES: Final = ("object", "external", "pods", "resource", "containerResource")  # in the order of judgement
USUAL_UTILIZATION: Final = 80  # percent of the processors asked for

_SOURCE_OF: Final = {name[0].upper() + name[1:]: name for name in SOURCES}


def reference(version: str) -> Struct:
    return Struct(
        f"autoscaling.{version}.CrossVersionObjectReference",
        Field("kind", STRING, 1, required=True, always=True),
        Field("name", STRING, 2, required=True, always=True),
        Field("apiVersion", STRING, 3),
        atomic=version == "v1",
    )


def metric_spec(version: str) -> Struct:
    return _either(f"autoscaling.{version}", "MetricSpec", "Source", _target(version), "target", version)


def metric_status(version: str) -> Struct:
    current = Struct(
        f"autoscaling.{version}.MetricValueStatus",
        Field("value", QUANTITY, 1, pointer=True),
        Field("averageValue", QUANTITY, 2, pointer=True),
        Field("averageUtilization", INT32, 3, pointer=True),
    )
    return _either(f"autoscaling.{version}", "MetricStatus", "Status", current, "current", version)


def _target(version: str) -> Struct:
    return Struct(
        f"autoscaling.{version}.MetricTarget",
        Field("type", STRING, 1, required=True, always=True),
        Field("value", QUANTITY, 2, pointer=True),
        Field("averageValue", QUANTITY, 3, pointer=True),
        Field("averageUtilization", INT32, 4, pointer=True),
    )


def _either(group: str, name: str, ending: str, value: Struct, part: str, version: str) -> Struct:
    """A type, and the source or status that belongs to it."""
    metric = Struct(
        f"{group}.MetricIdentifier",
        Field("name", STRING, 1, required=True, always=True),
        Field("selector", LABEL_SELECTOR, 2, pointer=True),
    )
    measured = (Field("metric", metric, 1, required=True), Field(part, value, 2, required=True))
    named = (Field("name", STRING, 1, required=True, always=True), Field(part, value, 2, required=True))
    if part == "target":
        on_object = (
            Field("describedObject", reference(version), 1, required=True),
            Field("target", value, 2, required=True),
            Field("metric", metric, 3, required=True),
        )
    else:
        on_object = (*measured, Field("describedObject", reference(version), 3, required=True))
    container = Field("container", STRING, 3, required=True, always=True)
    return Struct(
        f"{group}.{name}",
        Field("type", STRING, 1, required=True, always=True),
        Field("object", Struct(f"{group}.ObjectMetric{ending}", *on_object), 2, pointer=True),
        Field("pods", Struct(f"{group}.PodsMetric{ending}", *measured), 3, pointer=True),
        Field("resource", Struct(f"{group}.ResourceMetric{ending}", *named), 4, pointer=True),
        Field(
            "containerResource",
            Struct(f"{group}.ContainerResourceMetric{ending}", *named, container),
            7,
            pointer=True,
        ),
        Field("external", Struct(f"{group}.ExternalMetric{ending}", *measured), 5, pointer=True),
    )


def usual_metric(percent: int = USUAL_UTILIZATION) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def drop_container_sources(spec: Object) -> None:
    if any("containerResource" in metric for metric in spec.get("metrics", ())):
        spec["metrics"] = [
            {part: value for part, value in metric.items() if part != "containerResource"}
            for metric in spec["metrics"]
        ]


class MetricRules:
    """`home` is the domain of the API's own resources."""

    def __init__(self, home: str, features: frozenset[str]) -> None:
        self._home, self._features = home, features
        self._by_source = {
            "object": _object,
            "external": _external,
            "pods": _pods,
            "resource": _resource,
            "containerResource": self._container,
        }

    def judge(self, metrics: list[Object], fewest: int | None, field: str) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, metric in enumerate(metrics):
            errors += self._one(metric, f"{field}[{index}]")
        outside = any(metric["type"] in ("Object", "External") for metric in metrics)
        if fewest == 0 and not outside:
            text = "must specify at least one Object or External metric to support scaling to zero replicas"
            errors.append(forbidden(field, text))
        return errors

    def _one(self, metric: Object, field: str) -> list[FieldError]:
        kind = metric["type"]
        errors = [] if kind else [required(f"{field}.type", "must specify a metric source type")]
        if kind not in TYPES:
            errors.append(not_supported(f"{field}.type", kind, TYPES))
        present = [source for source in SOURCES if source in metric]
        if present:
            first = present[0]
            errors += self._by_source[first](metric[first], f"{field}.{first}")
        errors += self._missing(metric, field)
        if len(present) > 1:
            text = "must populate the given metric source only"
            others = sorted(source for source in present if source != _SOURCE_OF.get(kind))
            errors += [forbidden(f"{field}.{source}", text) for source in others]
        return errors

    def _missing(self, metric: Object, field: str) -> list[FieldError]:
        kind = metric["type"]
        if kind not in TYPES:
            return [not_supported(f"{field}.type", kind, TYPES)]
        source = _SOURCE_OF[kind]
        if source in metric:
            return []
        text = "must populate information for the given metric source"
        if source == "containerResource" and CONTAINER_METRICS not in self._features:
            text += " (only allowed when HPAContainerMetrics feature is enabled)"
        return [required(f"{field}.{source}", text)]

    def _container(self, source: Object, field: str) -> list[FieldError]:
        name, container = source["name"], source["container"]
        errors = (
            container_name_rules(name, f"{field}.name", self._home)
            if name
            else [required(f"{field}.name", "must specify a resource name")]
        )
        if container:
            errors += each(f"{field}.container", container, dns_label(container))
        else:
            errors.append(required(f"{field}.container", "must specify a container"))
        return errors + _used(source["target"], f"{field}.target")


def reference_rules(reference: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for part in ("kind", "name"):
        value = reference[part]
        if not value:
            errors.append(required(f"{field}.{part}"))
        errors += each(f"{field}.{part}", value, name_is_path_segment(value, False))
    return errors


def _object(source: Object, field: str) -> list[FieldError]:
    target = source["target"]
    errors = reference_rules(source["describedObject"], f"{field}.describedObject")
    errors += _metric(source["metric"], f"{field}.metric") + _target_rules(target, f"{field}.target")
    if "value" not in target and "averageValue" not in target:
        text = "must set either a target value or averageValue"
        errors.append(required(f"{field}.target.averageValue", text))
    return errors


def _external(source: Object, field: str) -> list[FieldError]:
    target = source["target"]
    errors = _metric(source["metric"], f"{field}.metric") + _target_rules(target, f"{field}.target")
    if "value" not in target and "averageValue" not in target:
        text = "must set either a target value for metric or a per-pod target"
        errors.append(required(f"{field}.target.averageValue", text))
    if "value" in target and "averageValue" in target:
        text = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{field}.target.value", text))
    return errors


def _pods(source: Object, field: str) -> list[FieldError]:
    errors = _metric(source["metric"], f"{field}.metric")
    errors += _target_rules(source["target"], f"{field}.target")
    if "averageValue" not in source["target"]:
        text = "must specify a positive target averageValue"
        errors.append(required(f"{field}.target.averageValue", text))
    return errors


def _resource(source: Object, field: str) -> list[FieldError]:
    errors = [] if source["name"] else [required(f"{field}.name", "must specify a resource name")]
    return errors + _used(source["target"], f"{field}.target")


def _used(target: Object, field: str) -> list[FieldError]:
    """How much of a resource: so much, or so much of what was asked for."""
    errors = _target_rules(target, field)
    share, amount = "averageUtilization" in target, "averageValue" in target
    if not share and not amount:
        text = "must set either a target raw value or a target utilization"
        errors.append(required(f"{field}.averageUtilization", text))
    if share and amount:
        text = "may not set both a target raw value and a target utilization"
        errors.append(forbidden(f"{field}.averageValue", text))
    return errors


def _target_rules(target: Object, field: str) -> list[FieldError]:
    kind = target["type"]
    errors = [] if kind else [required(f"{field}.type", "must specify a metric target type")]
    if kind not in TARGET_TYPES:
        errors.append(invalid(f"{field}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for part in ("value", "averageValue"):
        if part in target and nanos_of(target[part]) <= 0:
            errors.append(invalid(f"{field}.{part}", target[part], "must be positive"))
    if target.get("averageUtilization", 1) < 1:
        errors.append(
            invalid(f"{field}.averageUtilization", target["averageUtilization"], "must be greater than 0")
        )
    return errors


def _metric(metric: Object, field: str) -> list[FieldError]:
    name = metric["name"]
    if not name:
        return [required(f"{field}.name", "must specify a metric name")]
    return each(f"{field}.name", name, name_is_path_segment(name, False))


def targets_text(metrics: list[Object], found: list[Any]) -> str:
    """What is and what is aimed at, of the first two metrics."""
    told = [_told(metric, found[index] if index < len(found) else {}) for index, metric in enumerate(metrics)]
    if not told:
        return "<none>"
    more = f" + {len(told) - 2} more..." if len(told) > 2 else ""
    return ", ".join(told[:2]) + more


def _told(metric: Object, status: Object) -> str:
    source = _SOURCE_OF.get(metric["type"], "")
    if source not in metric:
        return "<unknown type>"
    target, current = metric[source]["target"], status.get(source, {}).get("current", {})
    if source in ("resource", "containerResource") and "averageValue" not in target:
        wanted = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
        used = current.get("averageUtilization")
        return f"{'<unknown>' if used is None else f'{used}%'}/{wanted}"
    if "averageValue" in target:
        average = current.get("averageValue", "<unknown>")
        per_pod = " (avg)" if source in ("object", "external") else ""
        return f"{average}/{target['averageValue']}{per_pod}"
    return f"{current.get('value', '<unknown>')}/{target.get('value', '0')}"
