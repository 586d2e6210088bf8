"""What a schema finds wrong with a value, and how the API reports it.

The texts are those of kube-openapi; `name` is the path inside the object. A branch of anyOf or oneOf counts the checks
that passed (`matches`), because the failures of the branch with the most matches are reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from actors.kinds.validation import FieldError, FieldErrors, invalid, required, too_many
from actors.kinds.values.go_format import float_text, show
from actors.quoting import quoted_list, quoted_start

TYPE, REQUIRED, TOO_LONG, ENUM, TOO_MANY, OTHER, COMPOSITE = (
    "type",
    "required",
    "too long",
    "enum",
    "too many",
    "other",
    "composite",
)
NO_PATH: Final = "<nil>"  # how Go prints a path that is nil


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    name: str
    text: str
    value: Any = None
    limit: Any = None  # a number, or the values of an enum


class Findings:
    """Each text once, in the order in which the checks found them."""

    __slots__ = ("by_text", "matches")

    def __init__(self, *found: Finding, matches: int = 0) -> None:
        self.by_text = {one.text: one for one in found}
        self.matches = matches

    def __bool__(self) -> bool:
        return bool(self.by_text)

    def add(self, one: Finding) -> None:
        self.by_text.setdefault(one.text, one)

    def merge(self, others: Findings) -> None:
        for text, one in others.by_text.items():
            self.by_text.setdefault(text, one)
        self.matches += others.matches


def composite(text: str) -> Finding:
    return Finding(COMPOSITE, "", text)


def wrong_type(name: str, wanted: str, found: str) -> Finding:
    return Finding(TYPE, name, f"{name} in body must be of type {wanted}: {quoted_start(found)}", found)


def other(name: str, text: str, value: Any) -> Finding:
    return Finding(OTHER, name, f"{name} in body {text}", value)


def number_text(value: float) -> str:
    return float_text(value) if isinstance(value, float) else str(value)


def report(errors: FieldErrors, path: str, findings: Iterable[Finding]) -> None:
    """Add findings as errors. `path` is that of the value; empty for a whole object."""
    for one in findings:
        errors.add(_error(path, one))


def _error(path: str, one: Finding) -> FieldError:
    if one.code == COMPOSITE:
        return invalid(path or NO_PATH, "", one.text)
    field = _joined(path, one.name)
    value = show("" if one.value is None else one.value)
    match one.code:
        case "required":
            return required(field)
        case "enum":
            shown = show(one.value)
            listed = quoted_list([_allowed(allowed) for allowed in one.limit])
            return FieldError(
                "FieldValueNotSupported", field, f"Unsupported value: {shown}: supported values: {listed}"
            )
        case "too long":
            return FieldError("FieldValueTooLong", field, f"Too long: may not be longer than {one.limit}")
        case "too many":
            return too_many(field, one.value, one.limit)
        case "type":
            return FieldError("FieldValueTypeInvalid", field, f"Invalid value: {value}: {one.text}")
    return FieldError("FieldValueInvalid", field, f"Invalid value: {value}: {one.text}")


def _joined(path: str, name: str) -> str:
    name = name.removeprefix(".")
    if not name:
        return path or NO_PATH
    return f"{path}.{name}" if path else name


def _allowed(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
