"""Searches an order of one object's operations in which every response is correct: a linearization.

The order must respect real time: an operation that ended before another was sent comes first. Operations without
a response may come anywhere after they were sent, or not at all. This is the search of Wing and Gong with the
cache of Lowe: depth first, never twice into the same (operations done, state).

    client 1    create #1 |----| 201 version 7
    client 2         delete #2 |-- no response          #1 #2 #3 is a linearization;
    client 3                        get #3 |--| 404     without #2 there would be none
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.robustness.history import Operation
from tests.robustness.model import State, follow

# Far more than one object needs in a run; a longer search means that the test is too broad.
STEPS = 2_000_000

Accept = Callable[[State], bool]


class NotLinearizable(Exception):
    """`placed` is the longest order that was correct."""

    def __init__(self, placed: Sequence[Operation], rest: Sequence[Operation]) -> None:
        self.placed, self.rest = placed, rest
        super().__init__()


def linearize(before: State, operations: Sequence[Operation], accept: Accept) -> State:
    """The final state of a linearization whose final state `accept` accepts."""
    ordered = sorted(operations, key=lambda operation: operation.ended)
    return _Search(ordered, accept).run(before)


class _Search:
    def __init__(self, operations: list[Operation], accept: Accept) -> None:
        self._operations = operations
        self._accept = accept
        self._responded = sum(1 << at for at, one in enumerate(operations) if one.known)
        self._visited: set[tuple[int, State]] = set()
        self._best: list[int] = []

    def run(self, before: State) -> State:
        path: list[int] = []
        stack = [self._next(0, before)]
        if self._finished(0, before):
            return before
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
                if path:
                    path.pop()
                continue
            at, done, state = step
            path.append(at)
            if len(path) > len(self._best):
                self._best = list(path)
            if self._finished(done, state):
                return state
            stack.append(self._next(done, state))
        placed = [self._operations[at] for at in self._best]
        raise NotLinearizable(placed, [one for one in self._operations if one not in placed])

    def _finished(self, done: int, state: State) -> bool:
        return done & self._responded == self._responded and self._accept(state)

    def _next(self, done: int, state: State) -> Iterator[tuple[int, int, State]]:
        if (done, state) in self._visited:
            return
        self._visited.add((done, state))
        assert len(self._visited) < STEPS, "too many orders to search"
        for at in self._candidates(done):
            for after in follow(state, self._operations[at]):
                yield at, done | 1 << at, after

    def _candidates(self, done: int) -> Iterator[int]:
        """Operations that may come next: no other remaining one had ended when they were sent."""
        left = [at for at in range(len(self._operations)) if not done >> at & 1]
        if not left:
            return
        # They are sorted by their ends, so the first has the earliest.
        earliest = self._operations[left[0]].ended
        for at in left:
            if self._operations[at].sent <= earliest:
                yield at
