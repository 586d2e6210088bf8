"""Tolerations, topology spread constraints and readiness gates of pods."""

from __future__ import annotations

from typing import Final

from actors.kinds.declaration.meta import LABEL_SELECTOR
from actors.kinds.schema.fields import INT32, INT64, STRING, STRINGS, Field, Struct
from actors.kinds.validation import (
    FieldErrors,
    duplicate,
    forbidden,
    invalid,
    label_value,
    not_supported,
    qualified_name,
    required,
)
from actors.messages import Object

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
OPERATORS: Final = ("Equal", "Exists")
UNSATISFIABLE_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
INCLUSION_POLICIES: Final = ("Honor", "Ignore")
NOT_POSITIVE: Final = "must be greater than zero"

TOLERATION = Struct(
    "core.v1.Toleration",
    Field("key", STRING, 1),
    Field("operator", STRING, 2, enum=("Equal", "Exists")),
    Field("value", STRING, 3),
    Field("effect", STRING, 4, enum=("NoExecute", "NoSchedule", "PreferNoSchedule")),
    Field("tolerationSeconds", INT64, 5, pointer=True),
)
TOPOLOGY_SPREAD_CONSTRAINT = Struct(
    "core.v1.TopologySpreadConstraint",
    Field("maxSkew", INT32, 1, required=True, always=True),
    Field("topologyKey", STRING, 2, required=True, always=True),
    Field(
        "whenUnsatisfiable", STRING, 3, required=True, always=True, enum=("DoNotSchedule", "ScheduleAnyway")
    ),
    Field("labelSelector", LABEL_SELECTOR, 4, pointer=True),
    Field("minDomains", INT32, 5, pointer=True),
    Field("nodeAffinityPolicy", STRING, 6, pointer=True),
    Field("nodeTaintsPolicy", STRING, 7, pointer=True),
    Field("matchLabelKeys", STRINGS, 8, list_type="atomic"),
)
POD_READINESS_GATE = Struct(
    "core.v1.PodReadinessGate",
    Field("conditionType", STRING, 1, required=True, always=True),
)


def toleration_rules(errors: FieldErrors, tolerations: list[Object], field: str) -> None:
    for index, toleration in enumerate(tolerations):
        _one_toleration_rules(errors, toleration, f"{field}[{index}]")


def _one_toleration_rules(errors: FieldErrors, toleration: Object, field: str) -> None:
    key, operator, effect = (toleration.get(part, "") for part in ("key", "operator", "effect"))
    if key:
        errors.add_each(f"{field}.key", key, qualified_name(key))
    if not key and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.add(invalid(f"{field}.operator", operator, text))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.add(invalid(f"{field}.effect", effect, text))
    _operator_rules(errors, toleration, operator, f"{field}.operator")
    if effect and effect not in EFFECTS:
        errors.add(not_supported(f"{field}.effect", effect, EFFECTS))


def _operator_rules(errors: FieldErrors, toleration: Object, operator: str, field: str) -> None:
    value = toleration.get("value", "")
    if operator in ("", "Equal"):
        wrong = label_value(value)
        if wrong:
            errors.add(invalid(field, value, ";".join(wrong)))
        return
    if operator == "Exists":
        text = "value must be empty when `operator` is 'Exists'"
        if value:
            errors.add(invalid(field, toleration, text))
        return
    errors.add(not_supported(field, operator, OPERATORS))


def added_toleration_rules(errors: FieldErrors, new: list[Object], old: list[Object], field: str) -> None:
    """An update may add tolerations and change their tolerationSeconds, but not remove any."""
    if not {_without_seconds(one) for one in old} <= {_without_seconds(one) for one in new}:
        text = "existing toleration can not be modified except its tolerationSeconds"
        errors.add(forbidden(field, text))
        return
    toleration_rules(errors, new, field)


def _without_seconds(toleration: Object) -> frozenset[tuple[str, str]]:
    return frozenset((part, value) for part, value in toleration.items() if part != "tolerationSeconds")


def spread_rules(errors: FieldErrors, constraints: list[Object], field: str) -> None:
    last = {(one["topologyKey"], one["whenUnsatisfiable"]): index for index, one in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        key, action = constraint["topologyKey"], constraint["whenUnsatisfiable"]
        _constraint_rules(errors, constraint, f"{field}[{index}]", repeated=last[key, action] > index)


def _constraint_rules(errors: FieldErrors, constraint: Object, field: str, *, repeated: bool) -> None:
    skew, key, action = (constraint[part] for part in ("maxSkew", "topologyKey", "whenUnsatisfiable"))
    if skew <= 0:
        errors.add(invalid(f"{field}.maxSkew", skew, NOT_POSITIVE))
    if not key:
        errors.add(required(f"{field}.topologyKey", "can not be empty"))
    if action not in UNSATISFIABLE_ACTIONS:
        errors.add(not_supported(f"{field}.whenUnsatisfiable", action, UNSATISFIABLE_ACTIONS))
    if repeated:
        errors.add(duplicate(f"{field}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
    _min_domains_rules(errors, constraint.get("minDomains"), action, f"{field}.minDomains")
    for part in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(part)
        if policy is not None and policy not in INCLUSION_POLICIES:
            errors.add(not_supported(f"{field}.{part}", policy, INCLUSION_POLICIES))
    _label_key_rules(errors, constraint, f"{field}.matchLabelKeys")


def _min_domains_rules(errors: FieldErrors, min_domains: int | None, action: str, field: str) -> None:
    if min_domains is None:
        return
    if min_domains <= 0:
        errors.add(invalid(field, min_domains, NOT_POSITIVE))
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.add(invalid(field, min_domains, text))


def _label_key_rules(errors: FieldErrors, constraint: Object, field: str) -> None:
    selector = constraint.get("labelSelector", {})
    selected = {*selector.get("matchLabels", ())}
    selected |= {one["key"] for one in selector.get("matchExpressions", ())}
    for index, key in enumerate(constraint.get("matchLabelKeys", ())):
        errors.add_each(f"{field}[{index}]", key, qualified_name(key))
        if key in selected:
            text = "exists in both matchLabelKeys and labelSelector"
            errors.add(invalid(f"{field}[{index}]", key, text))


def readiness_gate_rules(errors: FieldErrors, gates: list[Object], field: str) -> None:
    for index, gate in enumerate(gates):
        condition = gate["conditionType"]
        errors.add_each(f"{field}[{index}].conditionType", condition, qualified_name(condition))
