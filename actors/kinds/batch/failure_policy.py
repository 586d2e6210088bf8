"""podFailurePolicy of a job: how the job handles a failed pod, by its exit codes or its conditions.

It belongs to the alpha feature JobPodFailurePolicy, and is dropped while that is disabled.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from actors.kinds.schema.fields import INT32, STRING, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldError,
    FieldErrors,
    duplicate,
    invalid,
    not_supported,
    qualified_name,
    required,
    too_many,
)
from actors.messages import Object
from actors.quoting import quoted_start

MAX_RULES: Final = 20
MAX_EXIT_CODES: Final = 255
MAX_CONDITIONS: Final = 20
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


def set_defaults(policy: Object) -> None:
    """The status of a pod condition defaults to True."""
    for rule in policy["rules"] or ():
        for pattern in rule["onPodConditions"] or ():
            pattern["status"] = pattern["status"] or "True"


def failure_policy_rules(errors: FieldErrors, policy: Object, containers: Set[str], field: str) -> None:
    rules = policy["rules"] or []
    if len(rules) > MAX_RULES:
        errors.add(too_many(field, len(rules), MAX_RULES))
    for index, rule in enumerate(rules):
        _rule(errors, rule, containers, f"{field}[{index}]")


def _rule(errors: FieldErrors, rule: Object, containers: Set[str], field: str) -> None:
    codes, conditions = rule["onExitCodes"], rule["onPodConditions"]
    _enum_rules(errors, rule["action"], ACTIONS, f"{field}.action")
    if codes is not None:
        _exit_codes(errors, codes, containers, f"{field}.onExitCodes")
    _conditions(errors, conditions or [], f"{field}.onPodConditions")
    if codes is not None and conditions:
        errors.add(
            _invalid_without_value(field, "specifying both OnExitCodes and OnPodConditions is not supported")
        )
    if codes is None and not conditions:
        errors.add(
            _invalid_without_value(field, "specifying one of OnExitCodes and OnPodConditions is required")
        )


def _invalid_without_value(field: str, text: str) -> FieldError:
    """An error whose message shows no value."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {text}")


def _enum_rules(errors: FieldErrors, value: str, supported: tuple[str, ...], field: str) -> None:
    if not value:
        errors.add(required(field, f"valid values: [{' '.join(quoted_start(one) for one in supported)}]"))
    elif value not in supported:
        errors.add(not_supported(field, value, supported))


def _conditions(errors: FieldErrors, conditions: list[Object], field: str) -> None:
    if len(conditions) > MAX_CONDITIONS:
        errors.add(too_many(field, len(conditions), MAX_CONDITIONS))
    for index, pattern in enumerate(conditions):
        here = f"{field}[{index}]"
        errors.add_each(f"{here}.type", pattern["type"], qualified_name(pattern["type"]))
        _enum_rules(errors, pattern["status"], STATUSES, f"{here}.status")


def _exit_codes(errors: FieldErrors, codes: Object, containers: Set[str], field: str) -> None:
    _enum_rules(errors, codes["operator"], OPERATORS, f"{field}.operator")
    name, values = codes["containerName"], codes["values"] or []
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.add(invalid(f"{field}.containerName", name, text))
    if not values:
        errors.add(invalid(f"{field}.values", values, "at least one value is required"))
    elif len(values) > MAX_EXIT_CODES:
        errors.add(too_many(f"{field}.values", len(values), MAX_EXIT_CODES))
    _values(errors, values, codes["operator"], f"{field}.values")


def _values(errors: FieldErrors, values: list[int], operator: str, field: str) -> None:
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.add(invalid(f"{field}[{index}]", value, "must not be 0 for the In operator"))
        if value in seen:
            errors.add(duplicate(f"{field}[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        errors.add(invalid(field, values, "must be ordered"))
