"""Monotonic: versions never go back."""

from __future__ import annotations

from itertools import pairwise

from tests.robustness.guarantees import GuaranteeBroken
from tests.robustness.history import History
from tests.robustness.validate.responses import Highest, by_sending


def monotonic(history: History) -> None:
    _writes_ascend(history)
    _lists_never_go_back(history)
    _logs_only_grow(history)


def _writes_ascend(history: History) -> None:
    """A write that is sent after a client has seen a version gets a larger one."""
    highest = Highest(history)
    for operation in by_sending(history.acknowledged):
        before = highest.before(operation.sent)
        if operation.made is not None and operation.made <= before.version:
            raise GuaranteeBroken(
                "Monotonic", f"{operation} came after version {before.version} of {before.where}"
            )


def _lists_never_go_back(history: History) -> None:
    highest = Highest(history)
    firsts = [(paged.pages[0], paged) for paged in history.lists if paged.pages and not paged.exact]
    for page, paged in sorted(firsts, key=lambda first: first[0].sent):
        before = highest.before(page.sent)
        if page.version < before.version:
            raise GuaranteeBroken(
                "Monotonic", f"{paged} shows {page.version} after {before.version} of {before.where}"
            )


def _logs_only_grow(history: History) -> None:
    for earlier, later in pairwise(history.runs):
        if later.contents.head < earlier.contents.head:
            heads = (
                f"{earlier.contents.head} after run {earlier.number}, {later.contents.head} after the next"
            )
            raise GuaranteeBroken("Monotonic", f"the newest event was {heads}")
