"""Metrics of a HorizontalPodAutoscaler: of type Resource, ContainerResource, Pods, Object or External.

v2 and v2beta2 have the same structs under different names, so functions of the version build them.
`containerResource` belongs to the alpha feature HPAContainerMetrics.
"""

from __future__ import annotations

from typing import Any, Final

from actors.kinds.core.resources import container_name_rules
from actors.kinds.declaration.meta import LABEL_SELECTOR
from actors.kinds.features import CONTAINER_METRICS
from actors.kinds.schema.fields import INT32, QUANTITY, STRING, Field, Struct
from actors.kinds.validation import (
    FieldErrors,
    dns_label,
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
SOURCES: Final = ("object", "external", "pods", "resource", "containerResource")  # in the order of validation
DEFAULT_CPU_UTILIZATION: Final = 80  # percent of requested CPU

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
    return _metric_struct(
        f"autoscaling.{version}", "MetricSpec", "Source", _target(version), "target", version
    )


def metric_status(version: str) -> Struct:
    current = Struct(
        f"autoscaling.{version}.MetricValueStatus",
        Field("value", QUANTITY, 1, pointer=True),
        Field("averageValue", QUANTITY, 2, pointer=True),
        Field("averageUtilization", INT32, 3, pointer=True),
    )
    return _metric_struct(f"autoscaling.{version}", "MetricStatus", "Status", current, "current", version)


def _target(version: str) -> Struct:
    return Struct(
        f"autoscaling.{version}.MetricTarget",
        Field("type", STRING, 1, required=True, always=True),
        Field("value", QUANTITY, 2, pointer=True),
        Field("averageValue", QUANTITY, 3, pointer=True),
        Field("averageUtilization", INT32, 4, pointer=True),
    )


def _metric_struct(group: str, name: str, ending: str, value: Struct, part: str, version: str) -> Struct:
    """MetricSpec or MetricStatus: a type, and the field with the source or status of that type."""
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


def cpu_metric(percent: int = DEFAULT_CPU_UTILIZATION) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def drop_container_sources(spec: Object) -> None:
    if any("containerResource" in metric for metric in spec.get("metrics", ())):
        spec["metrics"] = [
            {part: value for part, value in metric.items() if part != "containerResource"}
            for metric in spec["metrics"]
        ]


class MetricRules:
    """`api_domain` is the domain of the API's own resources, with a slash."""

    def __init__(self, api_domain: str, features: frozenset[str]) -> None:
        self._api_domain, self._features = api_domain, features
        self._by_source = {
            "object": _object,
            "external": _external,
            "pods": _pods,
            "resource": _resource,
            "containerResource": self._container,
        }

    def validate(
        self, errors: FieldErrors, metrics: list[Object], min_replicas: int | None, field: str
    ) -> None:
        for index, metric in enumerate(metrics):
            self._one(errors, metric, f"{field}[{index}]")
        scales_from_zero = any(metric["type"] in ("Object", "External") for metric in metrics)
        if min_replicas == 0 and not scales_from_zero:
            text = "must specify at least one Object or External metric to support scaling to zero replicas"
            errors.add(forbidden(field, text))

    def _one(self, errors: FieldErrors, metric: Object, field: str) -> None:
        kind = metric["type"]
        if not kind:
            errors.add(required(f"{field}.type", "must specify a metric source type"))
        if kind not in TYPES:
            errors.add(not_supported(f"{field}.type", kind, TYPES))
        present = [source for source in SOURCES if source in metric]
        if present:
            first = present[0]
            self._by_source[first](errors, metric[first], f"{field}.{first}")
        self._missing(errors, metric, field)
        if len(present) > 1:
            text = "must populate the given metric source only"
            others = sorted(source for source in present if source != _SOURCE_OF.get(kind))
            for source in others:
                errors.add(forbidden(f"{field}.{source}", text))

    def _missing(self, errors: FieldErrors, metric: Object, field: str) -> None:
        kind = metric["type"]
        if kind not in TYPES:
            errors.add(not_supported(f"{field}.type", kind, TYPES))
            return
        source = _SOURCE_OF[kind]
        if source in metric:
            return
        text = "must populate information for the given metric source"
        if source == "containerResource" and CONTAINER_METRICS not in self._features:
            text += " (only allowed when HPAContainerMetrics feature is enabled)"
        errors.add(required(f"{field}.{source}", text))

    def _container(self, errors: FieldErrors, source: Object, field: str) -> None:
        name, container = source["name"], source["container"]
        if name:
            container_name_rules(errors, name, f"{field}.name", self._api_domain)
        else:
            errors.add(required(f"{field}.name", "must specify a resource name"))
        if container:
            errors.add_each(f"{field}.container", container, dns_label(container))
        else:
            errors.add(required(f"{field}.container", "must specify a container"))
        _resource_target_rules(errors, source["target"], f"{field}.target")


def reference_rules(errors: FieldErrors, reference: Object, field: str) -> None:
    for part in ("kind", "name"):
        value = reference[part]
        if not value:
            errors.add(required(f"{field}.{part}"))
        errors.add_each(f"{field}.{part}", value, name_is_path_segment(value, False))


def _object(errors: FieldErrors, source: Object, field: str) -> None:
    target = source["target"]
    reference_rules(errors, source["describedObject"], f"{field}.describedObject")
    _metric(errors, source["metric"], f"{field}.metric")
    _target_rules(errors, target, f"{field}.target")
    if "value" not in target and "averageValue" not in target:
        text = "must set either a target value or averageValue"
        errors.add(required(f"{field}.target.averageValue", text))


def _external(errors: FieldErrors, source: Object, field: str) -> None:
    target = source["target"]
    _metric(errors, source["metric"], f"{field}.metric")
    _target_rules(errors, target, f"{field}.target")
    if "value" not in target and "averageValue" not in target:
        text = "must set either a target value for metric or a per-pod target"
        errors.add(required(f"{field}.target.averageValue", text))
    if "value" in target and "averageValue" in target:
        text = "may not set both a target value for metric and a per-pod target"
        errors.add(forbidden(f"{field}.target.value", text))


def _pods(errors: FieldErrors, source: Object, field: str) -> None:
    _metric(errors, source["metric"], f"{field}.metric")
    _target_rules(errors, source["target"], f"{field}.target")
    if "averageValue" not in source["target"]:
        text = "must specify a positive target averageValue"
        errors.add(required(f"{field}.target.averageValue", text))


def _resource(errors: FieldErrors, source: Object, field: str) -> None:
    if not source["name"]:
        errors.add(required(f"{field}.name", "must specify a resource name"))
    _resource_target_rules(errors, source["target"], f"{field}.target")


def _resource_target_rules(errors: FieldErrors, target: Object, field: str) -> None:
    """A target of a resource has either averageValue or averageUtilization."""
    _target_rules(errors, target, field)
    utilization, average = "averageUtilization" in target, "averageValue" in target
    if not utilization and not average:
        text = "must set either a target raw value or a target utilization"
        errors.add(required(f"{field}.averageUtilization", text))
    if utilization and average:
        text = "may not set both a target raw value and a target utilization"
        errors.add(forbidden(f"{field}.averageValue", text))


def _target_rules(errors: FieldErrors, target: Object, field: str) -> None:
    kind = target["type"]
    if not kind:
        errors.add(required(f"{field}.type", "must specify a metric target type"))
    if kind not in TARGET_TYPES:
        errors.add(invalid(f"{field}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for part in ("value", "averageValue"):
        if part in target and nanos_of(target[part]) <= 0:
            errors.add(invalid(f"{field}.{part}", target[part], "must be positive"))
    if target.get("averageUtilization", 1) < 1:
        errors.add(
            invalid(f"{field}.averageUtilization", target["averageUtilization"], "must be greater than 0")
        )


def _metric(errors: FieldErrors, metric: Object, field: str) -> None:
    name = metric["name"]
    if not name:
        errors.add(required(f"{field}.name", "must specify a metric name"))
    else:
        errors.add_each(f"{field}.name", name, name_is_path_segment(name, False))


def targets_text(metrics: list[Object], current: list[Any]) -> str:
    """Current and target values of the first two metrics, as the table shows them: "40%/80%, 12/20"."""
    texts = [
        _target_text(metric, current[index] if index < len(current) else {})
        for index, metric in enumerate(metrics)
    ]
    if not texts:
        return "<none>"
    more = f" + {len(texts) - 2} more..." if len(texts) > 2 else ""
    return ", ".join(texts[:2]) + more


def _target_text(metric: Object, status: Object) -> str:
    source = _SOURCE_OF.get(metric["type"], "")
    if source not in metric:
        return "<unknown type>"
    target, current = metric[source]["target"], status.get(source, {}).get("current", {})
    if source in ("resource", "containerResource") and "averageValue" not in target:
        percent = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
        used = current.get("averageUtilization")
        return f"{'<unknown>' if used is None else f'{used}%'}/{percent}"
    if "averageValue" in target:
        average = current.get("averageValue", "<unknown>")
        per_pod = " (avg)" if source in ("object", "external") else ""
        return f"{average}/{target['averageValue']}{per_pod}"
    return f"{current.get('value', '<unknown>')}/{target.get('value', '0')}"
