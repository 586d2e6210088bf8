"""The guarantees as validators: each reads a recorded history and raises `GuaranteeBroken` when its sentence fails."""

from __future__ import annotations

from collections.abc import Callable

from tests.robustness.history import History
from tests.robustness.validate.atomic import atomic
from tests.robustness.validate.durable import durable
from tests.robustness.validate.exact import exact
from tests.robustness.validate.linear import linear
from tests.robustness.validate.monotonic import monotonic
from tests.robustness.validate.orderly import orderly
from tests.robustness.validate.recent import recent
from tests.robustness.validate.unique import unique

Validator = Callable[[History], None]

# Simple ones first: what they find also makes the later ones fail.
VALIDATORS: dict[str, Validator] = {
    "Exact": exact,
    "Unique": unique,
    "Monotonic": monotonic,
    "Atomic": atomic,
    "Recent": recent,
    "Linear": linear,
    "Durable": durable,
    "Orderly": orderly,
}


def validate(history: History) -> None:
    for validator in VALIDATORS.values():
        validator(history)
