"""Durable: the state of a restarted server follows from the responses before it ended."""

from __future__ import annotations

from itertools import pairwise

from tests.robustness.history import History
from tests.robustness.linearizability import Accept
from tests.robustness.model import State, agree
from tests.robustness.objects import KEYS, Document, Key
from tests.robustness.validate.linear import linearize_object


def durable(history: History) -> None:
    """For each object, a linearization of its requests must lead to the state found after the restart."""
    for run, following in pairwise(history.runs):
        for key in KEYS:
            found = following.found.get(key)
            linearize_object("Durable", run, key, leads_to(found, key), f"afterwards: {found}")


def leads_to(found: Document | None, key: Key) -> Accept:
    def agrees(state: State) -> bool:
        return any(True for _ in agree(state, key.plural, found))

    return agrees
