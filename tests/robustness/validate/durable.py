"""Durable: what a restarted server holds follows from what was answered before it died."""

from __future__ import annotations

from itertools import pairwise

from tests.robustness.explain import Accept
from tests.robustness.history import History
from tests.robustness.model import State, agree
from tests.robustness.objects import KEYS, Document, Key
from tests.robustness.validate.linear import explain_object


def durable(history: History) -> None:
    """Object by object: an order of its requests must explain the answers and what was found afterwards."""
    for life, following in pairwise(history.lives):
        for key in KEYS:
            found = following.found.get(key)
            explain_object("Durable", life, key, leads_to(found, key), f"afterwards: {found}")


def leads_to(found: Document | None, key: Key) -> Accept:
    def agrees(state: State) -> bool:
        return any(True for _ in agree(state, key.plural, found))

    return agrees
