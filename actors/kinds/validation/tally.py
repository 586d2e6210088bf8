"""How many broken rules are worth finding: a body of three megabytes can break a million of them.

Every `FieldError` is counted when it is made. Whoever judges an object (`actors/resource/decide.py`) does so inside
`few_enough`; beyond MOST the judging ends there and then, with those that were found. Rules know nothing of it.
Rejected: asking every loop of every rule to stop, because one would be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from actors.errors import MOST_COUNTED

if TYPE_CHECKING:
    from actors.kinds.validation.checks import FieldError

MOST: Final = MOST_COUNTED


class TooManyErrors(Exception):
    """More than anybody will read."""

    def __init__(self, errors: list[FieldError]) -> None:
        self.errors = errors


class _Found:
    """Those of the judging that goes on, if one does. Judging never waits, so there is at most one."""

    __slots__ = ("errors",)

    def __init__(self) -> None:
        self.errors: list[FieldError] | None = None


_found: Final = _Found()


def count(error: FieldError) -> None:
    errors = _found.errors
    if errors is not None:
        errors.append(error)
        if len(errors) > MOST:
            raise TooManyErrors(errors)


def few_enough(judge: Callable[..., list[FieldError]], *what: object) -> list[FieldError]:
    """What `judge` finds wrong, or the first MOST of it and one more."""
    _found.errors = []
    try:
        return judge(*what)
    except TooManyErrors as many:
        return many.errors
    finally:
        _found.errors = None
