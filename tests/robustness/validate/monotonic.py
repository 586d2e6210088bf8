"""Monotonic: no version, old or new, is ever followed by a smaller one."""

from __future__ import annotations

from itertools import pairwise

from tests.robustness.history import History
from tests.robustness.promise import Broken
from tests.robustness.validate.told import Highest, by_sending


def monotonic(history: History) -> None:
    _writes_ascend(history)
    _lists_never_go_back(history)
    _logs_only_grow(history)


def _writes_ascend(history: History) -> None:
    """A write that is sent after a version was told gets a larger one."""
    highest = Highest(history)
    for operation in by_sending(history.acknowledged):
        before = highest.before(operation.sent)
        if operation.made is not None and operation.made <= before.version:
            raise Broken("Monotonic", f"{operation} came after version {before.version} of {before.where}")


def _lists_never_go_back(history: History) -> None:
    highest = Highest(history)
    firsts = [(walk.pages[0], walk) for walk in history.walks if walk.pages and not walk.exact]
    for page, walk in sorted(firsts, key=lambda first: first[0].sent):
        before = highest.before(page.sent)
        if page.version < before.version:
            raise Broken("Monotonic", f"{walk} shows {page.version} after {before.version} of {before.where}")


def _logs_only_grow(history: History) -> None:
    for earlier, later in pairwise(history.lives):
        if later.ledger.head < earlier.ledger.head:
            heads = f"{earlier.ledger.head} after life {earlier.number}, {later.ledger.head} after the next"
            raise Broken("Monotonic", f"the newest event was {heads}")
