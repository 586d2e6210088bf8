"""Linear: some order of an object's requests, one that respects real time, gives every response."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.robustness.guarantees import GuaranteeBroken
from tests.robustness.history import DELETE_COLLECTION, History, Operation, ServerRun
from tests.robustness.linearizability import Accept, NotLinearizable, linearize
from tests.robustness.model import State, seen
from tests.robustness.objects import KEYS, Key


def linear(history: History) -> None:
    for run in history.runs:
        for key in KEYS:
            linearize_object("Linear", run, key, lambda _: True)


def linearize_object(
    guarantee: str,
    run: ServerRun,
    key: Key,
    accept: Accept,
    afterwards: str = "",
    may_take_effect: Callable[[Operation], bool] = lambda operation: operation.complete,
) -> State:
    """Linearize the requests for an object in one run; GuaranteeBroken lists all of them."""
    requests = sorted(requests_for(run, key), key=lambda operation: operation.sent)
    try:
        return linearize(initial_state(run, key), [one for one in requests if may_take_effect(one)], accept)
    except NotLinearizable as failed:
        lines = [
            f"no order of the requests explains {key} in run {run.number} ({run.ending})",
            f"before: {initial_state(run, key)}",
            *(f"{' ' if one in failed.placed else '?'} {one}" for one in requests),
            afterwards,
        ]
        raise GuaranteeBroken(guarantee, "\n  ".join(lines)) from None


def requests_for(run: ServerRun, key: Key) -> Iterator[Operation]:
    for operation in run.operations:
        collection = operation.verb == DELETE_COLLECTION and operation.key[:2] == key[:2]
        if operation.key == key or collection:
            yield operation


def initial_state(run: ServerRun, key: Key) -> State:
    return seen(key.plural, run.found.get(key), floor=run.found_at)
