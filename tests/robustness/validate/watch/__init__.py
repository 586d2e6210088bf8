"""The guarantees of watches as validators: what was seen, against the log that was written meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from tests.robustness.chronicle import Chronicle
from tests.robustness.course import Sightings
from tests.robustness.validate.watch.atomic import atomic
from tests.robustness.validate.watch.bookmarkable import bookmarkable
from tests.robustness.validate.watch.ordered import ordered
from tests.robustness.validate.watch.reliable import reliable
from tests.robustness.validate.watch.resumable import resumable
from tests.robustness.validate.watch.unique import unique

Validator = Callable[[Sightings, Chronicle], None]

# The plain ones first: what they find also confuses those behind them. A beginning that cannot be explained is left
# to Atomic by the others.
WATCH_VALIDATORS: dict[str, Validator] = {
    "Ordered": ordered,
    "Unique": unique,
    "Reliable": reliable,
    "Resumable": resumable,
    "Bookmarkable": bookmarkable,
    "Atomic": atomic,
}


def validate_watches(sightings: Sightings, chronicle: Chronicle) -> None:
    for validator in WATCH_VALIDATORS.values():
        validator(sightings, chronicle)
