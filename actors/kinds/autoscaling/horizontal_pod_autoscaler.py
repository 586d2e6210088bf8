"""HorizontalPodAutoscaler: scales a workload by metrics. Stored as v2.

v2beta2 has the same fields and differs only in which fields of an empty status it includes. v1 (`version_1`) has
annotations for what it has no fields for; these are never stored.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.autoscaling.behavior import behavior, behavior_rules, behavior_with_defaults
from actors.kinds.autoscaling.metrics import (
    MetricRules,
    cpu_metric,
    drop_container_sources,
    metric_spec,
    metric_status,
    reference,
    reference_rules,
    targets_text,
)
from actors.kinds.declaration.columns import AGE, NAME, Column
from actors.kinds.declaration.definition import (
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
from actors.kinds.declaration.meta import METADATA, metadata_update_rules
from actors.kinds.declaration.workloads import condition_struct, count_cell, not_negative
from actors.kinds.features import CONTAINER_METRICS, SCALE_TO_ZERO
from actors.kinds.schema.exact_decoder import ExactDecoder
from actors.kinds.schema.fields import INT32, INT64, TIME, Field, ListOf, Struct
from actors.kinds.validation import FieldErrors, invalid, name_is_subdomain
from actors.messages import Object
from actors.names import Names

TYPE_NAME: Final = "horizontalpodautoscalers.autoscaling"
V2BETA2_DEPRECATED: Final = (
    "autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated in v1.23+, unavailable in v1.26+; "
    "use autoscaling/v2 HorizontalPodAutoscaler"
)


def _spec(version: str, list_type: str) -> Struct:
    return Struct(
        f"autoscaling.{version}.HorizontalPodAutoscalerSpec",
        Field("scaleTargetRef", reference(version), 1, required=True),
        Field("minReplicas", INT32, 2, pointer=True, default=1),
        Field("maxReplicas", INT32, 3, required=True, always=True),
        Field("metrics", ListOf(metric_spec(version)), 4, list_type=list_type),
        Field("behavior", behavior(version, list_type=list_type), 5, pointer=True),
    )


STATUS = Struct(
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
    Field("spec", _spec("v2", "atomic"), 2),
    Field("status", STATUS, 3),
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


COLUMNS: Final = (
    NAME,
    Column("Reference", "string", "Object that it scales.", _reference_cell),
    Column(
        "Targets",
        "string",
        "Current and target values of the metrics.",
        lambda stored, _: targets_text(
            stored["spec"].get("metrics", []), stored["status"].get("currentMetrics") or []
        ),
    ),
    Column("MinPods", "string", "Minimum number of pods.", _min_cell),
    Column("MaxPods", "string", "Maximum number of pods.", count_cell("spec", "maxReplicas")),
    Column("Replicas", "string", "Current number of pods.", count_cell("status", "currentReplicas")),
    AGE,
)


def define(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, Definition]:
    """The stored version v2, and v2beta2."""
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
    return stored, beta


def set_defaults(round_trip: frozenset[str], new: Object) -> None:
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
    """Annotations of v1, by the field that each of them replaces."""
    parts = ("metrics", "current-metrics", "conditions", "behavior")
    return {part: names.key(part, "autoscaling.alpha") for part in parts}


class Autoscalers:
    """Strategy of autoscalers in one dialect, with the enabled alpha `features`."""

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
            set_defaults=partial(set_defaults, self._round_trip),
            subresources=(Subresource(name="status", prepare=keep_spec, validate=status_update_rules),),
            deprecation_warning=deprecated,
            storage=Storage(stored_as=stored_as, conversion=conversion, announced_version="v1"),
            table=Table(COLUMNS),
            strategy=Strategy(
                prepare_for_create=self.prepare_create,
                prepare_for_update=self.prepare_update,
                validate_create=self.rules,
                validate_update=self.update_rules,
            ),
        )

    def prepare_create(self, new: Object) -> None:
        clear_status(STATUS, new)
        if CONTAINER_METRICS not in self._features:
            drop_container_sources(new["spec"])

    def prepare_update(self, new: Object, old: Object) -> None:
        had = any("containerResource" in metric for metric in old["spec"].get("metrics", ()))
        if CONTAINER_METRICS not in self._features and not had:
            drop_container_sources(new["spec"])
        keep_status(new, old)

    def rules(self, errors: FieldErrors, new: Object, min_allowed: int = 1) -> None:
        spec = new["spec"]
        min_replicas, max_replicas = spec.get("minReplicas"), spec["maxReplicas"]
        lowest = 0 if SCALE_TO_ZERO in self._features else min_allowed
        if min_replicas is not None and min_replicas < lowest:
            text = f"must be greater than or equal to {lowest}"
            errors.add(invalid("spec.minReplicas", min_replicas, text))
        if max_replicas < 1:
            errors.add(invalid("spec.maxReplicas", max_replicas, "must be greater than 0"))
        if min_replicas is not None and max_replicas < min_replicas:
            text = "must be greater than or equal to `minReplicas`"
            errors.add(invalid("spec.maxReplicas", max_replicas, text))
        reference_rules(errors, spec["scaleTargetRef"], "spec.scaleTargetRef")
        self._metrics.validate(errors, spec.get("metrics", []), min_replicas, "spec.metrics")
        behavior_rules(errors, spec.get("behavior", {}), "spec.behavior")

    def update_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        """An autoscaler that already has minReplicas 0 may keep it while the feature is disabled."""
        lowest = 0 if old["spec"].get("minReplicas") == 0 else 1
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        self.rules(errors, new, lowest)


def status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    not_negative(errors, new["status"], "status", "currentReplicas", "desiredReplicas")
