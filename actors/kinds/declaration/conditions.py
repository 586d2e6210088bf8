"""metav1.Condition, which newer kinds share: its declaration and its validation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from actors.kinds.schema.fields import INT64, STRING, TIME, Field, Struct
from actors.kinds.validation.checks import explained, qualified_name, size
from actors.kinds.validation.field_errors import (
    FieldErrors,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from actors.messages import Object

LONGEST_REASON: Final = 1024
LONGEST_MESSAGE: Final = 32 * 1024
STATUSES: Final = ("False", "True", "Unknown")

CONDITION = Struct(
    "meta.v1.Condition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("observedGeneration", INT64, 3),
    Field("lastTransitionTime", TIME, 4, required=True, always=True),
    Field("reason", STRING, 5, required=True, always=True),
    Field("message", STRING, 6, required=True, always=True),
)

_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_reason = re.compile(_REASON).fullmatch


def condition_rules(errors: FieldErrors, conditions: Sequence[Object], field: str) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        if condition["type"] in seen:
            errors.add(duplicate(f"{field}[{index}].type", condition["type"]))
        seen.add(condition["type"])
        _one(errors, condition, f"{field}[{index}]")


def _one(errors: FieldErrors, condition: Object, field: str) -> None:
    errors.add_each(f"{field}.type", condition["type"], qualified_name(condition["type"]))
    if condition["status"] not in STATUSES:
        errors.add(not_supported(f"{field}.status", condition["status"], STATUSES))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        errors.add(
            invalid(f"{field}.observedGeneration", generation, "must be greater than or equal to zero")
        )
    if condition["lastTransitionTime"] is None:
        errors.add(required(f"{field}.lastTransitionTime", "must be set"))
    _reason(errors, condition["reason"], f"{field}.reason")
    if size(condition["message"]) > LONGEST_MESSAGE:
        errors.add(too_long(f"{field}.message", LONGEST_MESSAGE))


def _reason(errors: FieldErrors, reason: str, field: str) -> None:
    if not reason:
        errors.add(required(field, "must be set"))
        return
    if not _is_reason(reason):
        text = (
            "a condition reason must start with alphabetic character, optionally followed by a string of "
            "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
        )
        examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
        errors.add(invalid(field, reason, explained(text, _REASON, *examples)))
    if size(reason) > LONGEST_REASON:
        errors.add(too_long(field, LONGEST_REASON))
