"""Durable: what a restarted server holds follows from what was answered before it died."""

from __future__ import annotations

from itertools import pairwise

from tests.robustness.history import History, Life
from tests.robustness.model import State, agree
from tests.robustness.objects import KEYS, Key
from tests.robustness.validate.linear import explain_object


def durable(history: History) -> None:
    """Object by object: an order of its requests must explain the answers and what was found afterwards."""
    for life, following in pairwise(history.lives):
        for key in KEYS:
            _prove_explained(life, following, key)


def _prove_explained(life: Life, following: Life, key: Key) -> None:
    found = following.found.get(key)

    def leads_there(state: State) -> bool:
        return any(True for _ in agree(state, key.plural, found))

    explain_object("Durable", life, key, leads_there, f"afterwards: {found}")
