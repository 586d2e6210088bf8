"""The autoscaling group: HorizontalPodAutoscaler, which scales a workload by metrics, in three versions.

Objects are stored as v2 and converted to the others. v2beta2 has the same fields and differs only in which fields of an
empty status it includes. Both have the same structs under different names, so functions of the version build them.
Metrics are of type Resource, ContainerResource (of the alpha feature HPAContainerMetrics), Pods, Object or External;
`behavior` is the stabilization window and the policies for scaling up and scaling down.

v1 has a target for CPU utilization, and everything else in annotations, which are never stored: metrics, behavior,
current metrics and conditions as JSON, with the field names of v1. So a v1 client that writes back what it has read
loses nothing that v1 has no field for. The server drops annotations that it cannot decode, without an error, as
Kubernetes does.

Until v1.26 Kubernetes stores autoscalers as v1, and clients of other versions see the effects: the CPU metric is the
last of the metrics, and the type of a target follows from the values that it has. `canonicalize` reproduces both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.core.resources import container_name_rules
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    DiscoveryNames,
    Storage,
    Strategy,
    Subresource,
    Table,
    clear_status,
    keep_spec,
    keep_status,
)
from rewound.actors.kinds.declaration.meta import LABEL_SELECTOR, METADATA, OBJECT_META, metadata_update_rules
from rewound.actors.kinds.declaration.workloads import condition_struct, count_cell, not_negative
from rewound.actors.kinds.schema.exact_decoder import ExactDecoder
from rewound.actors.kinds.schema.fields import (
    INT32,
    INT64,
    QUANTITY,
    STRING,
    TIME,
    Before,
    Field,
    ListOf,
    Struct,
    Type,
)
from rewound.actors.kinds.validation import (
    NEGATIVE,
    FieldErrors,
    dns_label,
    forbidden,
    invalid,
    name_is_path_segment,
    name_is_subdomain,
    not_supported,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import nanos_of, parse_quantity
from rewound.actors.versions.features import (
    AUTOSCALER_TEXTS,
    AUTOSCALERS_AS_SENT,
    CONTAINER_METRICS,
    SCALE_TO_ZERO,
    TARGET_GROUPS,
)

MAX_PERIOD_SECONDS: Final = 1800
MAX_STABILIZATION_WINDOW_SECONDS: Final = 3600
POLICY_TYPES: Final = ("Percent", "Pods")
SELECT_POLICIES: Final = ("Disabled", "Max", "Min")
DIRECTIONS: Final = ("scaleUp", "scaleDown")
RULES_FIELDS: Final = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_DEFAULT_PERIOD_SECONDS: Final = 15


def behavior_struct(version: str, *, list_type: str = "") -> Struct:
    policy = Struct(
        f"autoscaling.{version}.HPAScalingPolicy",
        Field("type", STRING, 1, required=True, always=True),
        Field("value", INT32, 2, required=True, always=True),
        Field("periodSeconds", INT32, 3, required=True, always=True),
    )
    rules = Struct(
        f"autoscaling.{version}.HPAScalingRules",
        Field("stabilizationWindowSeconds", INT32, 3, pointer=True),
        Field("selectPolicy", STRING, 1, pointer=True),
        # A pointer in Go: an empty list is invalid, while an absent one gets the defaults.
        Field("policies", ListOf(policy), 2, pointer=True, list_type=list_type),
        *(
            (Field("tolerance", QUANTITY, 4, pointer=True, since="1.33", gate="HPAConfigurableTolerance"),)
            if version == "v2"
            else ()
        ),
    )
    return Struct(
        f"autoscaling.{version}.HorizontalPodAutoscalerBehavior",
        Field("scaleUp", rules, 1, pointer=True),
        Field("scaleDown", rules, 2, pointer=True),
    )


def _policy(kind: str, value: int) -> Object:
    return {"type": kind, "value": value, "periodSeconds": _DEFAULT_PERIOD_SECONDS}


def behavior_with_defaults(sent: Object) -> Object:
    """Return a behavior with defaults. The window for scaling down has none: the controller has one."""
    up: dict[str, Any] = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max"}
    up["policies"] = [_policy("Pods", 4), _policy("Percent", 100)]
    down = {"selectPolicy": "Max", "policies": [_policy("Percent", 100)]}
    defaults = {"scaleUp": up, "scaleDown": down}
    filled = {direction: {**defaults[direction], **sent.get(direction, {})} for direction in DIRECTIONS}
    return {
        direction: {part: rules[part] for part in RULES_FIELDS if part in rules}
        for direction, rules in filled.items()
    }


def behavior_rules(errors: FieldErrors, behavior: Object, field: str) -> None:
    for direction in DIRECTIONS:
        if direction in behavior:
            _scaling_rules(errors, behavior[direction], f"{field}.{direction}")


def _scaling_rules(errors: FieldErrors, rules: Object, field: str) -> None:
    window, selection = rules.get("stabilizationWindowSeconds", 0), rules.get("selectPolicy", "Max")
    if window < 0:
        text = "must be greater than or equal to zero"
        errors.add(invalid(f"{field}.stabilizationWindowSeconds", window, text))
    if window > MAX_STABILIZATION_WINDOW_SECONDS:
        text = f"must be less than or equal to {MAX_STABILIZATION_WINDOW_SECONDS}"
        errors.add(invalid(f"{field}.stabilizationWindowSeconds", window, text))
    if selection not in SELECT_POLICIES:
        errors.add(not_supported(f"{field}.selectPolicy", selection, SELECT_POLICIES))
    policies = rules.get("policies", [])
    if not policies:
        errors.add(required(f"{field}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        _policy_rules(errors, policy, f"{field}.policies[{index}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and parse_quantity(tolerance)[0] < 0:
        errors.add(invalid(f"{field}.tolerance", tolerance, NEGATIVE))


def _policy_rules(errors: FieldErrors, policy: Object, field: str) -> None:
    if policy["type"] not in POLICY_TYPES:
        errors.add(not_supported(f"{field}.type", policy["type"], POLICY_TYPES))
    for part in ("value", "periodSeconds"):
        if policy[part] <= 0:
            errors.add(invalid(f"{field}.{part}", policy[part], "must be greater than zero"))
    if policy["periodSeconds"] > MAX_PERIOD_SECONDS:
        text = f"must be less than or equal to {MAX_PERIOD_SECONDS}"
        errors.add(invalid(f"{field}.periodSeconds", policy["periodSeconds"], text))


METRIC_TYPES: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")
TARGET_TYPES: Final = ("Utilization", "Value", "AverageValue")
SOURCES: Final = ("object", "external", "pods", "resource", "containerResource")  # in the order of validation
DEFAULT_CPU_UTILIZATION: Final = 80  # percent of requested CPU

_SOURCE_OF: Final = {name[0].upper() + name[1:]: name for name in SOURCES}


def reference_struct(version: str) -> Struct:
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
    """Return MetricSpec or MetricStatus: a type, and the field with the source or status of that type."""
    metric = Struct(
        f"{group}.MetricIdentifier",
        Field("name", STRING, 1, required=True, always=True),
        Field("selector", LABEL_SELECTOR, 2, pointer=True),
    )
    measured = (Field("metric", metric, 1, required=True), Field(part, value, 2, required=True))
    named = (Field("name", STRING, 1, required=True, always=True), Field(part, value, 2, required=True))
    if part == "target":
        on_object = (
            Field("describedObject", reference_struct(version), 1, required=True),
            Field("target", value, 2, required=True),
            Field("metric", metric, 3, required=True),
        )
    else:
        on_object = (*measured, Field("describedObject", reference_struct(version), 3, required=True))
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
        if kind not in METRIC_TYPES:
            errors.add(not_supported(f"{field}.type", kind, METRIC_TYPES))
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
        if kind not in METRIC_TYPES:
            errors.add(not_supported(f"{field}.type", kind, METRIC_TYPES))
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


def reference_rules(
    errors: FieldErrors, reference: Object, field: str, *, core: bool = False, kept: bool = False
) -> None:
    """`core`: it may be an object of the core group. `kept`: the stored autoscaler already names it."""
    for part in ("kind", "name"):
        value = reference[part]
        if not value:
            errors.add(required(f"{field}.{part}"))
        errors.add_each(f"{field}.{part}", value, name_is_path_segment(value, False))
    version = reference.get("apiVersion", "")
    if kept or TARGET_GROUPS not in errors.features:
        return
    if version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        errors.add(invalid(f"{field}.apiVersion", version, text))
    elif not core and not version.rpartition("/")[0]:
        errors.add(invalid(f"{field}.apiVersion", version, "apiVersion must specify API group"))


def _object(errors: FieldErrors, source: Object, field: str) -> None:
    target = source["target"]
    reference_rules(errors, source["describedObject"], f"{field}.describedObject", core=True)
    _metric_rules(errors, source["metric"], f"{field}.metric")
    _target_rules(errors, target, f"{field}.target")
    if "value" not in target and "averageValue" not in target:
        text = "must set either a target value or averageValue"
        errors.add(required(f"{field}.target.averageValue", text))


def _external(errors: FieldErrors, source: Object, field: str) -> None:
    target = source["target"]
    _metric_rules(errors, source["metric"], f"{field}.metric")
    _target_rules(errors, target, f"{field}.target")
    if "value" not in target and "averageValue" not in target:
        text = "must set either a target value for metric or a per-pod target"
        errors.add(required(f"{field}.target.averageValue", text))
    if "value" in target and "averageValue" in target:
        text = "may not set both a target value for metric and a per-pod target"
        errors.add(forbidden(f"{field}.target.value", text))


def _pods(errors: FieldErrors, source: Object, field: str) -> None:
    _metric_rules(errors, source["metric"], f"{field}.metric")
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


def _metric_rules(errors: FieldErrors, metric: Object, field: str) -> None:
    name = metric["name"]
    if not name:
        errors.add(required(f"{field}.name", "must specify a metric name"))
    else:
        errors.add_each(f"{field}.name", name, name_is_path_segment(name, False))


def targets_text(metrics: list[Object], current: list[Any], *, named: bool = False) -> str:
    """Return current and target values of the first two metrics, as the table shows them: "40%/80%, 12/20"."""
    texts = [
        _target_text(metric, current[index] if index < len(current) else {}, named=named)
        for index, metric in enumerate(metrics)
    ]
    if not texts:
        return "<none>"
    more = f" + {len(texts) - 2} more..." if len(texts) > 2 else ""
    return ", ".join(texts[:2]) + more


def _target_text(metric: Object, status: Object, *, named: bool) -> str:
    text, source = _values_text(metric, status), _SOURCE_OF.get(metric["type"], "")
    is_resource = source in ("resource", "containerResource") and source in metric
    return f"{metric[source]['name']}: {text}" if named and is_resource else text


def _values_text(metric: Object, status: Object) -> str:
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


TYPE_NAME: Final = "horizontalpodautoscalers.autoscaling"
V2BETA2_DEPRECATED: Final = (
    "autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated in v1.23+, unavailable in v1.26+; "
    "use autoscaling/v2 HorizontalPodAutoscaler"
)


def _spec(version: str, list_type: str) -> Struct:
    return Struct(
        f"autoscaling.{version}.HorizontalPodAutoscalerSpec",
        Field("scaleTargetRef", reference_struct(version), 1, required=True),
        Field("minReplicas", INT32, 2, pointer=True, default=1),
        Field("maxReplicas", INT32, 3, required=True, always=True),
        Field("metrics", ListOf(metric_spec(version)), 4, list_type=list_type),
        Field("behavior", behavior_struct(version, list_type=list_type), 5, pointer=True),
    )


AUTOSCALER_STATUS = Struct(
    "autoscaling.v2.HorizontalPodAutoscalerStatus",
    Field("observedGeneration", INT64, 1, pointer=True),
    Field("lastScaleTime", TIME, 2, pointer=True),
    Field("currentReplicas", INT32, 3),
    Field("desiredReplicas", INT32, 4, required=True, always=True),
    Field("currentMetrics", ListOf(metric_status("v2")), 5, always=True, list_type="atomic"),
    Field(
        "conditions",
        ListOf(condition_struct("autoscaling.v2.HorizontalPodAutoscalerCondition")),
        6,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    ),
)
AUTOSCALER = Struct(
    "autoscaling.v2.HorizontalPodAutoscaler",
    METADATA,
    Field("spec", _spec("v2", "atomic"), 2, required=True, before=(Before("1.36", required=False),)),
    Field("status", AUTOSCALER_STATUS, 3),
)
BETA_STATUS = Struct(
    "autoscaling.v2beta2.HorizontalPodAutoscalerStatus",
    Field("observedGeneration", INT64, 1, pointer=True),
    Field("lastScaleTime", TIME, 2, pointer=True),
    Field("currentReplicas", INT32, 3, required=True, always=True),
    Field("desiredReplicas", INT32, 4, required=True, always=True),
    Field("currentMetrics", ListOf(metric_status("v2beta2")), 5, always=True),
    Field(
        "conditions",
        ListOf(condition_struct("autoscaling.v2beta2.HorizontalPodAutoscalerCondition")),
        6,
        always=True,
    ),
)
BETA_AUTOSCALER = Struct(
    "autoscaling.v2beta2.HorizontalPodAutoscaler",
    METADATA,
    Field("spec", _spec("v2beta2", ""), 2),
    Field("status", BETA_STATUS, 3),
)


def _min_cell(stored: Object, _: int) -> str:
    return str(stored["spec"].get("minReplicas", "<unset>"))


def _reference_cell(stored: Object, _: int) -> str:
    named = stored["spec"]["scaleTargetRef"]
    return f"{named['kind']}/{named['name']}"


_TARGETS: Final = "Current and target values of the metrics."


def _targets_cell(stored: Object, _: int, *, named: bool) -> str:
    """Resources have their name in front if `named`."""
    current = stored["status"].get("currentMetrics") or []
    return targets_text(stored["spec"].get("metrics", []), current, named=named)


AUTOSCALER_COLUMNS: Final = (
    NAME,
    Column("Reference", "string", "Object that it scales.", _reference_cell),
    Column("Targets", "string", _TARGETS, partial(_targets_cell, named=False), until="1.29"),
    Column("Targets", "string", _TARGETS, partial(_targets_cell, named=True), since="1.30"),
    Column("MinPods", "string", "Minimum number of pods.", _min_cell),
    Column("MaxPods", "string", "Maximum number of pods.", count_cell("spec", "maxReplicas")),
    Column("Replicas", "string", "Current number of pods.", count_cell("status", "currentReplicas")),
    AGE,
)


def define_autoscaler(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, Definition]:
    """Define the stored version v2, and v2beta2."""
    autoscalers = Autoscalers(names, features)
    stored = autoscalers.definition("v2", AUTOSCALER)
    beta = autoscalers.definition(
        "v2beta2",
        BETA_AUTOSCALER,
        stored_as=TYPE_NAME,
        conversion=Conversion(
            to_storage=lambda beta: ExactDecoder(defaults=False).struct(AUTOSCALER, beta),
            from_storage=lambda stored: ExactDecoder(defaults=False).struct(BETA_AUTOSCALER, stored),
        ),
        deprecated=V2BETA2_DEPRECATED,
    )
    return stored, replace(beta, until="1.25")


def set_autoscaler_defaults(round_trip: frozenset[str], new: Object) -> None:
    spec = new["spec"]
    if not spec.get("metrics"):
        spec["metrics"] = [cpu_metric()]
    sent = spec.pop("behavior", None)
    if sent is not None:
        spec["behavior"] = behavior_with_defaults(sent)
    drop_round_trip(round_trip, new["metadata"])


def drop_round_trip(keys: frozenset[str], metadata: Object) -> None:
    annotations = metadata.get("annotations", {})
    if keys.isdisjoint(annotations):
        return
    kept = {key: value for key, value in annotations.items() if key not in keys}
    metadata["annotations"] = kept
    if not kept:
        del metadata["annotations"]


def round_trip_keys(names: Names) -> dict[str, str]:
    """Return the annotations of v1, by the field that each of them replaces."""
    parts = ("metrics", "current-metrics", "conditions", "behavior")
    return {part: names.key(part, "autoscaling.alpha") for part in parts}


class Autoscalers:
    """The strategy of autoscalers in one dialect, with the enabled alpha `features`."""

    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._features = features
        self._metrics = MetricRules(names.key(""), features)
        self._round_trip = frozenset(round_trip_keys(names).values())

    def definition(
        self,
        version: str,
        fields: Struct,
        *,
        stored_as: str = "",
        conversion: Conversion | None = None,
        deprecated: str = "",
    ) -> Definition:
        return Definition(
            group="autoscaling",
            version=version,
            kind="HorizontalPodAutoscaler",
            plural="horizontalpodautoscalers",
            names=DiscoveryNames(short_names=("hpa",), categories=("all",)),
            namespaced=True,
            check_name=name_is_subdomain,
            fields=fields,
            set_defaults=partial(set_autoscaler_defaults, self._round_trip),
            subresources=(
                Subresource(name="status", prepare=keep_spec, validate=autoscaler_status_update_rules),
            ),
            deprecation_warning=deprecated,
            storage=Storage(
                stored_as=stored_as, conversion=conversion, announced_since={"1.25": "v1", "1.27": "v2"}
            ),
            table=Table(AUTOSCALER_COLUMNS),
            strategy=Strategy(
                prepare_for_create=self.prepare_create,
                prepare_for_update=self.prepare_update,
                validate_create=self.rules,
                validate_update=self.update_rules,
            ),
        )

    def prepare_create(self, new: Object) -> None:
        clear_status(AUTOSCALER_STATUS, new)
        if CONTAINER_METRICS not in self._features:
            drop_container_sources(new["spec"])

    def prepare_update(self, new: Object, old: Object) -> None:
        had = any("containerResource" in metric for metric in old["spec"].get("metrics", ()))
        if CONTAINER_METRICS not in self._features and not had:
            drop_container_sources(new["spec"])
        keep_status(new, old)

    def rules(
        self, errors: FieldErrors, new: Object, min_allowed: int = 1, before: Object | None = None
    ) -> None:
        spec = new["spec"]
        min_replicas, max_replicas = spec.get("minReplicas"), spec["maxReplicas"]
        lowest = 0 if SCALE_TO_ZERO in self._features else min_allowed
        if min_replicas is not None and min_replicas < lowest:
            text = f"must be greater than or equal to {lowest}"
            errors.add(invalid("spec.minReplicas", min_replicas, text))
        if max_replicas < 1 and AUTOSCALER_TEXTS in self._features:
            text = "must be greater than or equal to 1"
            unset = required("spec.maxReplicas", "must be set and greater than 0")
            errors.add(invalid("spec.maxReplicas", max_replicas, text) if max_replicas else unset)
        elif max_replicas < 1:
            errors.add(invalid("spec.maxReplicas", max_replicas, "must be greater than 0"))
        if min_replicas is not None and max_replicas < min_replicas:
            text = "must be greater than or equal to `minReplicas`"
            errors.add(invalid("spec.maxReplicas", max_replicas, text))
        target = spec["scaleTargetRef"]
        kept = before is not None and all(
            target.get(part) == before["scaleTargetRef"].get(part) for part in ("kind", "apiVersion")
        )
        core = target["kind"] == "ReplicationController"
        reference_rules(errors, target, "spec.scaleTargetRef", core=core, kept=kept)
        self._metrics.validate(errors, spec.get("metrics", []), min_replicas, "spec.metrics")
        behavior_rules(errors, spec.get("behavior", {}), "spec.behavior")

    def update_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        """An autoscaler that already has minReplicas 0 may keep it while the feature is disabled."""
        lowest = 0 if old["spec"].get("minReplicas") == 0 else 1
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        self.rules(errors, new, lowest, old["spec"])


def autoscaler_status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    not_negative(errors, new["status"], "status", "currentReplicas", "desiredReplicas")


REFERENCE = reference_struct("v1")
V1_SPEC = Struct(
    "autoscaling.v1.HorizontalPodAutoscalerSpec",
    Field("scaleTargetRef", REFERENCE, 1, required=True),
    Field("minReplicas", INT32, 2, pointer=True, default=1),
    Field("maxReplicas", INT32, 3, required=True, always=True),
    Field("targetCPUUtilizationPercentage", INT32, 4, pointer=True),
)
V1_STATUS = Struct(
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
    Field("spec", V1_SPEC, 2, required=True, before=(Before("1.36", required=False),)),
    Field("status", V1_STATUS, 3),
)

# Structs of the JSON in annotations.
_METRIC_NAME: Final = Field("metricName", STRING, 1, always=True)
_NAME: Final = Field("name", STRING, 1, always=True)
_CONTAINER: Final = Field("container", STRING, 5, always=True)


def _v1_metric(name: str, *of: tuple[str, Struct]) -> Struct:
    sources = (Field(source, struct, 0, pointer=True) for source, struct in of)
    return Struct(f"autoscaling.v1.{name}", Field("type", STRING, 1, always=True), *sources)


METRIC_SPEC = _v1_metric(
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
METRIC_STATUS = _v1_metric(
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
V1_CONDITION = condition_struct("autoscaling.v1.HorizontalPodAutoscalerCondition")
BEHAVIOR = behavior_struct("v2", list_type="atomic")

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


def define_v1(keys: Mapping[str, str], stored: Definition) -> Definition:
    """Return the v1 definition: the stored one with another schema and a conversion."""
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
    """Keep only what survives a conversion to v1 and back, because Kubernetes stored autoscalers as v1."""
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
        "spec": {**_common_fields(V1_SPEC, spec), "targetCPUUtilizationPercentage": percent},
        "status": {
            **_common_fields(V1_STATUS, status),
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
    """Return the utilization for which v1 has a field: that of a CPU metric."""
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
    conditions = _decoded(ListOf(V1_CONDITION), annotations.get(keys["conditions"]))
    if conditions is not None:
        status["conditions"] = conditions
    metadata = dict(sent["metadata"])
    drop_round_trip(frozenset(keys.values()), metadata)
    return ExactDecoder(defaults=False).struct(
        AUTOSCALER, {"metadata": metadata, "spec": spec, "status": status}
    )


def _decoded(type_: Type, text: str | None) -> Any:
    """Return the value in an annotation, or None if it cannot be decoded."""
    if text is None:
        return None
    try:
        return ExactDecoder(defaults=False).value(type_, orjson.loads(text))
    except (ValueError, RecursionError):
        return None


def _metric_to_v1(metric: Object, part: str) -> Object:
    """Return a v2 metric with the field names of v1."""
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
    """Return a v1 metric with the field names of v2."""
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
    """Return the type of a target, which v1 lacks: it follows from the values, by rules that differ by source."""
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
    """Encode behavior as Kubernetes does in the annotation: names with an initial capital, null for absent fields."""
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
            **({"Tolerance": behavior[direction]["tolerance"]} if "tolerance" in behavior[direction] else {}),
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


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    """Return the definitions of all versions, the preferred one first."""
    keys = round_trip_keys(names)
    stored, beta = define_autoscaler(names, features)
    if AUTOSCALERS_AS_SENT not in features:
        strategy = msgspec.structs.replace(stored.strategy, canonicalize=partial(canonicalize, keys))
        stored, beta = (replace(view, strategy=strategy) for view in (stored, beta))
    return stored, define_v1(keys, stored), beta
