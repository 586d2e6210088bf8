"""Errors about fields: one `FieldError` for each broken rule, and the collector that validation adds them to.

A validation function takes the collector as its first parameter, adds what it finds and returns nothing, so the
order of the calls is the order of the causes in the response. Making a `FieldError` has no effect beyond itself.

The collector bounds the count: a body of three megabytes can break a million rules. Past `MOST` it raises
`TooManyErrors`, which ends validation there and then; only `collect`, which makes the collector, catches it, and
`decide` for creates.
It also cuts paths and messages: both can hold a key or a name of megabytes, and there may be a thousand of them.
Rejected: a check in every loop of every rule, because one would be forgotten; a process-wide counter in the
constructor of `FieldError`, because constructing a value then depends on who else is validating.

The texts are part of the API: clients and people match on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Final, ParamSpec

from actors.errors import MAX_COUNTED, Cause
from actors.kinds.values.go_format import format_value
from actors.messages import Object
from actors.quoting import cut, quoted_list, quoted_start

MOST: Final = MAX_COUNTED
LONGEST_PATH: Final = 1024
LONGEST_MESSAGE: Final = (
    12 * 1024
)  # more than the longest that has a meaning, the differences between two pods
IMMUTABLE: Final = "field is immutable"
NEGATIVE: Final = "must be greater than or equal to 0"

_Args = ParamSpec("_Args")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One broken rule: a reason word, the path of the field, and the text."""

    reason: str
    field: str
    message: str

    def cause(self) -> Cause:
        return Cause(self.reason, self.message, self.field)


class TooManyErrors(Exception):
    """A collector holds more errors than anybody will read."""


class FieldErrors:
    """The errors of one validation, in the order in which the rules add them."""

    __slots__ = ("found", "valid_metadata")

    def __init__(self) -> None:
        self.found: list[FieldError] = []
        # What the rules of labels, annotations and owners found valid: an update runs them up to four times.
        self.valid_metadata: Object | None = None

    def add(self, error: FieldError) -> None:
        if len(error.field) > LONGEST_PATH or len(error.message) > LONGEST_MESSAGE:
            error = FieldError(
                error.reason, cut(error.field, LONGEST_PATH), cut(error.message, LONGEST_MESSAGE)
            )
        self.found.append(error)
        if len(self.found) > MOST:
            raise TooManyErrors

    def add_each(self, field: str, value: Any, texts: Iterable[str]) -> None:
        """Add one error for each text about the same value."""
        for text in texts:
            self.add(invalid(field, value, text))

    def add_all(self, errors: Iterable[FieldError]) -> None:
        for error in errors:
            self.add(error)

    def added_by(
        self,
        validate: Callable[Concatenate[FieldErrors, _Args], None],
        *args: _Args.args,
        **kwargs: _Args.kwargs,
    ) -> list[FieldError]:
        """Run `validate` on this collector and return the errors that it added, for rules that depend on them.

        Some rules apply only when others found nothing, and some errors the reference reports twice.
        """
        before = len(self.found)
        validate(self, *args, **kwargs)
        return self.found[before:]


def collect(
    validate: Callable[Concatenate[FieldErrors, _Args], None], *args: _Args.args, **kwargs: _Args.kwargs
) -> list[FieldError]:
    """The errors that `validate` finds; when there are too many, the first MOST and one more."""
    errors = FieldErrors()
    try:
        validate(errors, *args, **kwargs)
    except TooManyErrors:
        pass
    return errors.found


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(
        "FieldValueInvalid", field, _with_detail(f"Invalid value: {format_value(value)}", detail)
    )


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, _with_detail("Required value", detail))


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, _with_detail("Forbidden", detail))


def duplicate(field: str, value: Any, detail: str = "") -> FieldError:
    return FieldError(
        "FieldValueDuplicate", field, _with_detail(f"Duplicate value: {format_value(value)}", detail)
    )


def not_supported(field: str, value: str, supported: Sequence[str]) -> FieldError:
    text = f"Unsupported value: {quoted_start(value)}: supported values: {quoted_list(supported)}"
    return FieldError("FieldValueNotSupported", field, text)


def not_found(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueNotFound", field, f"Not found: {format_value(value)}")


def too_long(field: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", field, f"Too long: must have at most {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    text = f"Too many: {count}: must have at most {limit} items"
    return FieldError("FieldValueTooMany", field, text)


def undecided(field: str, why: str) -> FieldError:
    """A rule that cannot be checked, because a value it depends on is invalid; that value has an error of its own."""
    return FieldError("InternalError", field, f"Internal error: {why}")


def unchanged(errors: FieldErrors, field: str, new: Any, old: Any) -> None:
    if new != old:
        errors.add(invalid(field, new, IMMUTABLE))


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text
