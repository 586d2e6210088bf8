"""HorizontalPodAutoscaler: how many pods a workload is to have, by what is measured of it.

Stored as v2. In v2beta2 the same fields have the same names, and only what is shown of an empty status differs.
Annotations in which the oldest version (`version_1`) shows what it has no fields for are never stored.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.autoscaling.behavior import behavior, behavior_rules, fill_behavior
from actors.kinds.autoscaling.metrics import (
    MetricRules,
    drop_container_sources,
    metric_spec,
    metric_status,
    reference,
    reference_rules,
    targets_text,
    usual_metric,
)
from actors.kinds.declaration.columns import AGE, NAME, Column
from actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    DiscoveryNames,
    Storage,
    Subresource,
    Table,
)
from actors.kinds.declaration.meta import METADATA, metadata_change_rules
from actors.kinds.declaration.spec_status import clear_status, keep_spec, keep_status
from actors.kinds.declaration.strategy import Strategy
from actors.kinds.declaration.workloads import condition_struct, count_cell, not_negative
from actors.kinds.features import CONTAINER_METRICS, SCALE_TO_ZERO
from actors.kinds.schema.exact_decoder import ExactDecoder
from actors.kinds.schema.fields import INT32, INT64, TIME, Field, ListOf, Struct
from actors.kinds.validation.checks import name_is_subdomain
from actors.kinds.validation.field_errors import FieldErrors, invalid
from actors.messages import Object
from actors.names import Names

TYPE_NAME: Final = "horizontalpodautoscalers.autoscaling"
OLD: Final = (
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


def _fewest(made: Object, _: int) -> str:
    return str(made["spec"].get("minReplicas", "<unset>"))


def _target(made: Object, _: int) -> str:
    named = made["spec"]["scaleTargetRef"]
    return f"{named['kind']}/{named['name']}"


COLUMNS: Final = (
    NAME,
    Column("Reference", "string", "What it scales.", _target),
    Column(
        "Targets",
        "string",
        "What is measured and what is aimed at.",
        lambda made, _: targets_text(
            made["spec"].get("metrics", []), made["status"].get("currentMetrics") or []
        ),
    ),
    Column("MinPods", "string", "Fewest pods that it leaves.", _fewest),
    Column("MaxPods", "string", "Most pods that it makes.", count_cell("spec", "maxReplicas")),
    Column("Replicas", "string", "Pods that there are.", count_cell("status", "currentReplicas")),
    AGE,
)


def define(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, Definition]:
    """As it is stored, and as the version before shows it."""
    autoscalers = Autoscalers(names, features)
    stored = autoscalers.definition("v2", AUTOSCALER)
    beta = autoscalers.definition(
        "v2beta2",
        BETA_AUTOSCALER,
        stored_as=TYPE_NAME,
        conversion=Conversion(
            to_storage=lambda shown: ExactDecoder(defaults=False).struct(AUTOSCALER, shown),
            from_storage=lambda kept: ExactDecoder(defaults=False).struct(BETA_AUTOSCALER, kept),
        ),
        deprecated=OLD,
    )
    return stored, beta


def fill(round_trip: frozenset[str], new: Object) -> None:
    spec = new["spec"]
    if not spec.get("metrics"):
        spec["metrics"] = [usual_metric()]
    said = spec.pop("behavior", None)
    if said is not None:
        spec["behavior"] = fill_behavior(said)
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
    """Annotations of the oldest version, by what each of them stands for."""
    parts = ("metrics", "current-metrics", "conditions", "behavior")
    return {part: names.key(part, "autoscaling.alpha") for part in parts}


class Autoscalers:
    """Preparations and rules in one dialect, with the alpha `features` that are on."""

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
            set_defaults=partial(fill, self._round_trip),
            subresources=(Subresource(name="status", prepare=keep_spec, validate=status_change_rules),),
            deprecation_warning=deprecated,
            storage=Storage(stored_as=stored_as, conversion=conversion),
            table=Table(COLUMNS),
            strategy=Strategy(
                prepare_for_create=self.prepare_create,
                prepare_for_update=self.prepare_update,
                validate_create=self.rules,
                validate_update=self.change_rules,
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

    def rules(self, errors: FieldErrors, new: Object, fewest_allowed: int = 1) -> None:
        spec = new["spec"]
        fewest, most = spec.get("minReplicas"), spec["maxReplicas"]
        lowest = 0 if SCALE_TO_ZERO in self._features else fewest_allowed
        if fewest is not None and fewest < lowest:
            text = f"must be greater than or equal to {lowest}"
            errors.add(invalid("spec.minReplicas", fewest, text))
        if most < 1:
            errors.add(invalid("spec.maxReplicas", most, "must be greater than 0"))
        if fewest is not None and most < fewest:
            text = "must be greater than or equal to `minReplicas`"
            errors.add(invalid("spec.maxReplicas", most, text))
        reference_rules(errors, spec["scaleTargetRef"], "spec.scaleTargetRef")
        self._metrics.validate(errors, spec.get("metrics", []), fewest, "spec.metrics")
        behavior_rules(errors, spec.get("behavior", {}), "spec.behavior")

    def change_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        """One that was allowed to scale to none may go on."""
        lowest = 0 if old["spec"].get("minReplicas") == 0 else 1
        metadata_change_rules(errors, new["metadata"], old["metadata"])
        self.rules(errors, new, lowest)


def status_change_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_change_rules(errors, new["metadata"], old["metadata"])
    not_negative(errors, new["status"], "status", "currentReplicas", "desiredReplicas")
