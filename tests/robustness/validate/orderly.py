"""Orderly: a server that stopped by itself had responded to every request that took effect."""

from __future__ import annotations

from itertools import pairwise

from tests.robustness.history import History, Operation
from tests.robustness.objects import KEYS
from tests.robustness.validate.durable import leads_to
from tests.robustness.validate.linear import linearize_object


def orderly(history: History) -> None:
    """Like Durable, but requests without a response must not have taken effect."""
    for run, following in pairwise(history.runs):
        for key in KEYS if run.orderly else ():
            found = following.found.get(key)
            linearize_object("Orderly", run, key, leads_to(found, key), f"afterwards: {found}", took_effect)


def took_effect(operation: Operation) -> bool:
    return operation.complete and (operation.known or operation.abandoned)
