"""IntOrString fields that hold a number of pods or a percentage of all of them: 3, or 25%."""

from __future__ import annotations

import re
from typing import Final

from actors.kinds.validation.checks import explained
from actors.kinds.validation.field_errors import NEGATIVE, FieldErrors, invalid

IntOrPercent = int | str

_PERCENT: Final = "[0-9]+%"
_PERCENT_TEXT: Final = explained(
    "a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%"
)
_is_percent = re.compile(_PERCENT).fullmatch
_is_number = re.compile("[-+]?[0-9]+").fullmatch


def int_or_percent_rules(errors: FieldErrors, value: IntOrPercent, field: str) -> None:
    """Must not be negative, and must be a percentage where it is a string."""
    if isinstance(value, str):
        if not _is_percent(value):
            errors.add_each(field, value, [_PERCENT_TEXT])
    elif value < 0:
        errors.add(invalid(field, value, NEGATIVE))


def at_most_100_percent(errors: FieldErrors, value: IntOrPercent, field: str) -> None:
    if isinstance(value, str) and _is_percent(value) and number_in(value) > 100:
        errors.add(invalid(field, value, "must not be greater than 100%"))


def number_in(value: IntOrPercent) -> int:
    """The number, of pods or percent; 0 for a string without one."""
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    return int(digits) if _is_number(digits) and len(digits) < 20 else 0
