"""What a job makes of a failed pod, by exit codes or by conditions of the pod.

A feature that is off unless asked for: then whatever says so is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.kinds.schema.fields import INT32, STRING, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    FieldError,
    duplicate,
    each,
    invalid,
    not_supported,
    qualified_name,
    required,
    too_many,
)
from actors.kinds.values.spelling import quoted
from actors.messages import Object

MOST_RULES: Final = 20
MOST_EXIT_CODES: Final = 255
MOST_CONDITIONS: Final = 20
ACTIONS: Final = ("Count", "FailJob", "Ignore")
OPERATORS: Final = ("In", "NotIn")
STATUSES: Final = ("False", "True", "Unknown")

EXIT_CODES = Struct(
    "batch.v1.PodFailurePolicyOnExitCodesRequirement",
    Field("containerName", STRING, 1, pointer=True, always=True),
    Field("operator", STRING, 2, required=True, always=True, enum=OPERATORS),
    Field("values", ListOf(INT32), 3, required=True, always=True, list_type="set"),
)
POD_CONDITION = Struct(
    "batch.v1.PodFailurePolicyOnPodConditionsPattern",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
)
RULE = Struct(
    "batch.v1.PodFailurePolicyRule",
    Field("action", STRING, 1, required=True, always=True, enum=ACTIONS),
    Field("onExitCodes", EXIT_CODES, 2, pointer=True, always=True),
    Field("onPodConditions", ListOf(POD_CONDITION), 3, always=True, list_type="atomic"),
)
POD_FAILURE_POLICY = Struct(
    "batch.v1.PodFailurePolicy",
    Field("rules", ListOf(RULE), 1, required=True, always=True, list_type="atomic"),
)


def fill(policy: Object) -> None:
    """A condition is meant to hold unless something else is said."""
    for rule in policy["rules"] or ():
        for pattern in rule["onPodConditions"] or ():
            pattern["status"] = pattern["status"] or "True"


def failure_policy_rules(policy: Object, containers: Sequence[str], field: str) -> list[FieldError]:
    rules = policy["rules"] or []
    errors = [too_many(field, len(rules), MOST_RULES)] if len(rules) > MOST_RULES else []
    for index, rule in enumerate(rules):
        errors += _rule(rule, containers, f"{field}[{index}]")
    return errors


def _rule(rule: Object, containers: Sequence[str], field: str) -> list[FieldError]:
    codes, conditions = rule["onExitCodes"], rule["onPodConditions"]
    errors = _word(rule["action"], ACTIONS, f"{field}.action")
    if codes is not None:
        errors += _exit_codes(codes, containers, f"{field}.onExitCodes")
    errors += _conditions(conditions or [], f"{field}.onPodConditions")
    if codes is not None and conditions:
        errors.append(_said(field, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        errors.append(_said(field, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _said(field: str, text: str) -> FieldError:
    """Wrong without a value that one could show."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {text}")


def _word(word: str, known: tuple[str, ...], field: str) -> list[FieldError]:
    if not word:
        return [required(field, f"valid values: [{' '.join(quoted(one) for one in known)}]")]
    return [] if word in known else [not_supported(field, word, known)]


def _conditions(conditions: list[Object], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(conditions) > MOST_CONDITIONS:
        errors.append(too_many(field, len(conditions), MOST_CONDITIONS))
    for index, pattern in enumerate(conditions):
        here = f"{field}[{index}]"
        errors += each(f"{here}.type", pattern["type"], qualified_name(pattern["type"]))
        errors += _word(pattern["status"], STATUSES, f"{here}.status")
    return errors


def _exit_codes(codes: Object, containers: Sequence[str], field: str) -> list[FieldError]:
    errors = _word(codes["operator"], OPERATORS, f"{field}.operator")
    name, values = codes["containerName"], codes["values"] or []
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{field}.containerName", name, text))
    if not values:
        errors.append(invalid(f"{field}.values", values, "at least one value is required"))
    elif len(values) > MOST_EXIT_CODES:
        errors.append(too_many(f"{field}.values", len(values), MOST_EXIT_CODES))
    return errors + _values(values, codes["operator"], f"{field}.values")


def _values(values: list[int], operator: str, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{field}[{index}]", value, "must not be 0 for the In operator"))
        if value in values[:index]:
            errors.append(duplicate(f"{field}[{index}]", value))
    if values != sorted(values):
        errors.append(invalid(field, values, "must be ordered"))
    return errors
