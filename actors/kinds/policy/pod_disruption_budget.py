"""PodDisruptionBudget: how many of the selected pods voluntary disruptions may make unavailable at a time.

It has either minAvailable or maxUnavailable. Evictions decrement its status (`core/pods/eviction`), so updates must
have a resourceVersion.
"""

from __future__ import annotations

from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, Cell, Column
from actors.kinds.declaration.definition import (
    Definition,
    DiscoveryNames,
    Storage,
    Strategy,
    Subresource,
    Table,
    keep_spec,
    keep_status_and_bump_generation,
    reset_status_and_generation,
)
from actors.kinds.declaration.meta import (
    CONDITION,
    LABEL_SELECTOR,
    METADATA,
    condition_rules,
    label_selector_rules,
    metadata_rules,
)
from actors.kinds.declaration.workloads import (
    at_most_100_percent,
    count_cell,
    int_or_percent_rules,
    not_negative,
)
from actors.kinds.schema.fields import INT32, INT64, INT_OR_STRING, TIME, Field, ListOf, MapOf, Struct
from actors.kinds.validation import FieldErrors, invalid, name_is_path_segment
from actors.messages import Object
from actors.names import Names

SPEC = Struct(
    "policy.v1.PodDisruptionBudgetSpec",
    Field("minAvailable", INT_OR_STRING, 1, pointer=True),
    Field("selector", LABEL_SELECTOR, 2, pointer=True, patch="replace"),
    Field("maxUnavailable", INT_OR_STRING, 3, pointer=True),
)
STATUS = Struct(
    "policy.v1.PodDisruptionBudgetStatus",
    Field("observedGeneration", INT64, 1),
    Field("disruptedPods", MapOf(TIME), 2),
    Field("disruptionsAllowed", INT32, 3, required=True, always=True),
    Field("currentHealthy", INT32, 4, required=True, always=True),
    Field("desiredHealthy", INT32, 5, required=True, always=True),
    Field("expectedPods", INT32, 6, required=True, always=True),
    Field(
        "conditions",
        ListOf(CONDITION),
        7,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    ),
)
POD_DISRUPTION_BUDGET = Struct(
    "policy.v1.PodDisruptionBudget", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3)
)


def _int_or_percent_cell(part: str) -> Cell:
    return lambda stored, _: str(stored["spec"].get(part, "N/A"))


COLUMNS: Final = (
    NAME,
    Column("Min Available", "string", "Pods that must stay available.", _int_or_percent_cell("minAvailable")),
    Column(
        "Max Unavailable", "string", "Pods that may be unavailable.", _int_or_percent_cell("maxUnavailable")
    ),
    Column(
        "Allowed Disruptions",
        "integer",
        "Pods that can be evicted now.",
        count_cell("status", "disruptionsAllowed"),
    ),
    AGE,
)


def define(_: Names) -> Definition:
    return Definition(
        group="policy",
        version="v1",
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        names=DiscoveryNames(short_names=("pdb",)),
        namespaced=True,
        check_name=name_is_path_segment,
        fields=POD_DISRUPTION_BUDGET,
        subresources=(Subresource(name="status", prepare=keep_spec, validate=status_update_rules),),
        storage=Storage(announced_version="v1beta1"),
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_unconditional_update=False,
            validates_metadata=True,
            prepare_for_create=lambda new: reset_status_and_generation(STATUS, new),
            prepare_for_update=keep_status_and_bump_generation,
            validate_create=create_rules,
            validate_update=update_rules,
        ),
    )


def update_rules(errors: FieldErrors, new: Object, _: Object) -> None:
    rules(errors, new)


def create_rules(errors: FieldErrors, new: Object) -> None:
    """Validate metadata only when the rest is valid, as Kubernetes does; the name is any path segment."""
    if not errors.added_by(rules, new):
        metadata_rules(
            errors,
            new["metadata"],
            namespaced=True,
            check_name=name_is_path_segment,
            known_finalizers=False,
        )


def rules(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    if "minAvailable" in spec and "maxUnavailable" in spec:
        text = "minAvailable and maxUnavailable cannot be both set"
        errors.add(invalid("spec", spec, text))
    for part in ("minAvailable", "maxUnavailable"):
        if part in spec:
            int_or_percent_rules(errors, spec[part], f"spec.{part}")
            at_most_100_percent(errors, spec[part], f"spec.{part}")
    label_selector_rules(errors, spec.get("selector"), "spec.selector")


def status_update_rules(errors: FieldErrors, new: Object, _: Object) -> None:
    status = new["status"]
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    condition_rules(errors, status.get("conditions", []), "status.conditions")
    not_negative(errors, status, "status", *counts)
