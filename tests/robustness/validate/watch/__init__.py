"""The guarantees of watches as validators: they compare what clients received with the log."""

from __future__ import annotations

from collections.abc import Callable

from tests.robustness.journal_follower import JournalFollower
from tests.robustness.observations import Observations
from tests.robustness.validate.watch.atomic import atomic
from tests.robustness.validate.watch.bookmarkable import bookmarkable
from tests.robustness.validate.watch.ordered import ordered
from tests.robustness.validate.watch.reliable import reliable
from tests.robustness.validate.watch.resumable import resumable
from tests.robustness.validate.watch.unique import unique

Validator = Callable[[Observations, JournalFollower], None]

# Simple ones first: what they find also makes the later ones fail. Only Atomic reports an initial state that never
# existed.
WATCH_VALIDATORS: dict[str, Validator] = {
    "Ordered": ordered,
    "Unique": unique,
    "Reliable": reliable,
    "Resumable": resumable,
    "Bookmarkable": bookmarkable,
    "Atomic": atomic,
}


def validate_watches(observations: Observations, follower: JournalFollower) -> None:
    for validator in WATCH_VALIDATORS.values():
        validator(observations, follower)
