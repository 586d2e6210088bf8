"""Exact: the state is what the log says, and the log says what clients were told."""

from __future__ import annotations

from tests.robustness.history import History, Life
from tests.robustness.objects import bare
from tests.robustness.promise import Broken


def exact(history: History) -> None:
    for life in history.lives:
        if life.ledger.differences:
            raise Broken("Exact", f"after life {life.number} ({life.ending}): {life.ledger.differences}")
        _prove_state(life)
        _prove_answers(life)
    for earlier, later in zip(history.lives, history.lives[1:], strict=False):
        _prove_found(earlier, later)


def _prove_state(life: Life) -> None:
    ledger = life.ledger
    if ledger.rows != ledger.at(ledger.head):
        raise Broken("Exact", f"after life {life.number} the stored state is not what its events lead to")


def _prove_answers(life: Life) -> None:
    """Every acknowledged version is an event with the content of the answer, while retention keeps it."""
    entries = {entry.offset: entry for entry in life.ledger.entries}
    for operation in life.operations:
        made = operation.made
        if made is None:
            continue
        entry = entries.get(made)
        if entry is None:
            if made > life.ledger.floor:
                raise Broken("Exact", f"the log has no event for {operation}")
        elif entry.key != operation.key or entry.body != bare(operation.answer):
            raise Broken("Exact", f"event {made} is {entry.body}, but the answer was {operation.answer}")


def _prove_found(earlier: Life, later: Life) -> None:
    """What a restarted server serves is what its folder held before it started."""
    served = {key: bare(shown) for key, shown in later.found.items()}
    if served != earlier.ledger.rows:
        wrong = [
            f"{key}: served {served.get(key)}, stored {earlier.ledger.rows.get(key)}"
            for key in sorted({*served, *earlier.ledger.rows})
            if served.get(key) != earlier.ledger.rows.get(key)
        ]
        raise Broken("Exact", f"life {later.number} began with another state than was stored: {wrong[:3]}")
