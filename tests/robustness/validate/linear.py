"""Linear: some order of an object's requests, one that respects real time, explains every answer."""

from __future__ import annotations

from collections.abc import Iterator

from tests.robustness.explain import Accept, Unexplained, explain
from tests.robustness.history import DELETE_COLLECTION, History, Life, Operation
from tests.robustness.model import State, seen
from tests.robustness.objects import KEYS, Key
from tests.robustness.promise import Broken


def linear(history: History) -> None:
    for life in history.lives:
        for key in KEYS:
            explain_object("Linear", life, key, lambda _: True)


def explain_object(promise: str, life: Life, key: Key, accept: Accept, afterwards: str = "") -> State:
    operations = list(concerning(life, key))
    try:
        return explain(beginning(life, key), operations, accept)
    except Unexplained as failed:
        story = sorted(operations, key=lambda one: one.sent)
        lines = [
            f"no order explains {key} in life {life.number} ({life.ending})",
            f"before: {beginning(life, key)}",
            *(f"{'' if one in failed.placed else '?'} {one}" for one in story),
            afterwards,
        ]
        raise Broken(promise, "\n  ".join(lines)) from None


def concerning(life: Life, key: Key) -> Iterator[Operation]:
    for operation in life.operations:
        collection = operation.verb == DELETE_COLLECTION and operation.key[:2] == key[:2]
        if operation.complete and (operation.key == key or collection):
            yield operation


def beginning(life: Life, key: Key) -> State:
    return seen(key.plural, life.found.get(key), floor=life.found_at)
