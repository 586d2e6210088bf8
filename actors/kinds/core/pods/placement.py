"""Where a pod may run: taints it tolerates, how its kind is spread, and when it counts as ready there."""

from __future__ import annotations

from typing import Final

from actors.kinds.declaration.label_selector import LABEL_SELECTOR
from actors.kinds.schema.fields import INT32, INT64, STRING, STRINGS, Field, Struct
from actors.kinds.validation.checks import (
    FieldError,
    duplicate,
    each,
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
UNSATISFIED: Final = ("DoNotSchedule", "ScheduleAnyway")
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


def toleration_rules(tolerations: list[Object], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        errors += _toleration(toleration, f"{field}[{index}]")
    return errors


def _toleration(toleration: Object, field: str) -> list[FieldError]:
    key, operator, effect = (toleration.get(part, "") for part in ("key", "operator", "effect"))
    errors = each(f"{field}.key", key, qualified_name(key)) if key else []
    if not key and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{field}.operator", operator, text))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{field}.effect", effect, text))
    errors += _operator(toleration, operator, f"{field}.operator")
    if effect and effect not in EFFECTS:
        errors.append(not_supported(f"{field}.effect", effect, EFFECTS))
    return errors


def _operator(toleration: Object, operator: str, field: str) -> list[FieldError]:
    value = toleration.get("value", "")
    if operator in ("", "Equal"):
        wrong = label_value(value)
        return [invalid(field, value, ";".join(wrong))] if wrong else []
    if operator == "Exists":
        text = "value must be empty when `operator` is 'Exists'"
        return [invalid(field, toleration, text)] if value else []
    return [not_supported(field, operator, OPERATORS)]


def added_toleration_rules(new: list[Object], old: list[Object], field: str) -> list[FieldError]:
    """A pod can learn to tolerate more, and for another time; it never forgets."""
    kept = [_timeless(one) for one in new]
    if any(_timeless(one) not in kept for one in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden(field, text)]
    return toleration_rules(new, field)


def _timeless(toleration: Object) -> Object:
    return {part: value for part, value in toleration.items() if part != "tolerationSeconds"}


def spread_rules(constraints: list[Object], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, constraint in enumerate(constraints):
        errors += _constraint(constraint, constraints[index + 1 :], f"{field}[{index}]")
    return errors


def _constraint(constraint: Object, rest: list[Object], field: str) -> list[FieldError]:
    skew, key, action = (constraint[part] for part in ("maxSkew", "topologyKey", "whenUnsatisfiable"))
    errors = [] if skew > 0 else [invalid(f"{field}.maxSkew", skew, NOT_POSITIVE)]
    if not key:
        errors.append(required(f"{field}.topologyKey", "can not be empty"))
    if action not in UNSATISFIED:
        errors.append(not_supported(f"{field}.whenUnsatisfiable", action, UNSATISFIED))
    if any((one["topologyKey"], one["whenUnsatisfiable"]) == (key, action) for one in rest):
        errors.append(duplicate(f"{field}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
    errors += _domains(constraint.get("minDomains"), action, f"{field}.minDomains")
    for part in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(part)
        if policy is not None and policy not in INCLUSION_POLICIES:
            errors.append(not_supported(f"{field}.{part}", policy, INCLUSION_POLICIES))
    return errors + _label_keys(constraint, f"{field}.matchLabelKeys")


def _domains(least: int | None, action: str, field: str) -> list[FieldError]:
    if least is None:
        return []
    errors = [] if least > 0 else [invalid(field, least, NOT_POSITIVE)]
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(field, least, text))
    return errors


def _label_keys(constraint: Object, field: str) -> list[FieldError]:
    selector = constraint.get("labelSelector", {})
    selected = {*selector.get("matchLabels", ())}
    selected |= {one["key"] for one in selector.get("matchExpressions", ())}
    errors: list[FieldError] = []
    for index, key in enumerate(constraint.get("matchLabelKeys", ())):
        errors += each(f"{field}[{index}]", key, qualified_name(key))
        if key in selected:
            text = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid(f"{field}[{index}]", key, text))
    return errors


def readiness_gate_rules(gates: list[Object], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, gate in enumerate(gates):
        condition = gate["conditionType"]
        errors += each(f"{field}[{index}].conditionType", condition, qualified_name(condition))
    return errors
