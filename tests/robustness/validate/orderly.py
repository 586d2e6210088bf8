"""Orderly: a server that stopped by itself had answered all that it did."""

from __future__ import annotations

from itertools import pairwise

from tests.robustness.history import History, Operation
from tests.robustness.objects import KEYS
from tests.robustness.validate.durable import leads_to
from tests.robustness.validate.linear import explain_object


def orderly(history: History) -> None:
    """Durable again, but with nothing to be explained by requests that waited for an answer in vain."""
    for life, following in pairwise(history.lives):
        for key in KEYS if life.orderly else ():
            found = following.found.get(key)
            explain_object("Orderly", life, key, leads_to(found, key), f"afterwards: {found}", taken)


def taken(operation: Operation) -> bool:
    return operation.complete and (operation.known or operation.abandoned)
