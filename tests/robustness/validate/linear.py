"""Linear: some order of an object's requests, one that respects real time, explains every answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.robustness.explain import Accept, Unexplained, explain
from tests.robustness.history import DELETE_COLLECTION, History, Life, Operation
from tests.robustness.model import State, seen
from tests.robustness.objects import KEYS, Key
from tests.robustness.promise import Broken


def linear(history: History) -> None:
    for life in history.lives:
        for key in KEYS:
            explain_object("Linear", life, key, lambda _: True)


def explain_object(
    promise: str,
    life: Life,
    key: Key,
    accept: Accept,
    afterwards: str = "",
    happened: Callable[[Operation], bool] = lambda operation: operation.complete,
) -> State:
    """An order of what happened to an object in one life, or Broken with the whole story."""
    story = sorted(concerning(life, key), key=lambda operation: operation.sent)
    try:
        return explain(beginning(life, key), [one for one in story if happened(one)], accept)
    except Unexplained as failed:
        lines = [
            f"no order explains {key} in life {life.number} ({life.ending})",
            f"before: {beginning(life, key)}",
            *(f"{' ' if one in failed.placed else '?'} {one}" for one in story),
            afterwards,
        ]
        raise Broken(promise, "\n  ".join(lines)) from None


def concerning(life: Life, key: Key) -> Iterator[Operation]:
    for operation in life.operations:
        collection = operation.verb == DELETE_COLLECTION and operation.key[:2] == key[:2]
        if operation.key == key or collection:
            yield operation


def beginning(life: Life, key: Key) -> State:
    return seen(key.plural, life.found.get(key), floor=life.found_at)
