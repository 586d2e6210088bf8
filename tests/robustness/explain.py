"""Is there an order of one object's operations that gives every answer as it was given?

The order must follow real time: what ended before another was sent comes first. Operations without an answer
may be put anywhere behind their sending, or left out. This is the search of Wing and Gong with the memory of
Lowe: depth first, never twice into the same (operations done, state).

    client 1    create #1 |----| 201 version 7
    client 2         delete #2 |-- no answer            #1 #2 #3 is an order that explains it;
    client 3                        get #3 |--| 404     without #2 there would be none
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.robustness.history import Operation
from tests.robustness.model import State, follow

# Far beyond what a life of traffic needs for one object; a search that long says that the test is too wide.
STEPS = 2_000_000

Accept = Callable[[State], bool]


class Unexplained(Exception):
    """`placed` is the longest order that went well."""

    def __init__(self, placed: Sequence[Operation], rest: Sequence[Operation]) -> None:
        self.placed, self.rest = placed, rest
        super().__init__()


def explain(before: State, operations: Sequence[Operation], accept: Accept) -> State:
    """The state at the end of an order that explains every answer, and that `accept` takes."""
    ordered = sorted(operations, key=lambda operation: operation.ended)
    return _Search(ordered, accept).run(before)


class _Search:
    def __init__(self, operations: list[Operation], accept: Accept) -> None:
        self._operations = operations
        self._accept = accept
        self._answered = sum(1 << at for at, one in enumerate(operations) if one.known)
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
        raise Unexplained(placed, [one for one in self._operations if one not in placed])

    def _finished(self, done: int, state: State) -> bool:
        return done & self._answered == self._answered and self._accept(state)

    def _next(self, done: int, state: State) -> Iterator[tuple[int, int, State]]:
        if (done, state) in self._visited:
            return
        self._visited.add((done, state))
        assert len(self._visited) < STEPS, "too many orders to look at"
        for at in self._movable(done):
            for after in follow(state, self._operations[at]):
                yield at, done | 1 << at, after

    def _movable(self, done: int) -> Iterator[int]:
        """Operations that may come next: no other one had ended when they were sent."""
        left = [at for at in range(len(self._operations)) if not done >> at & 1]
        if not left:
            return
        # In order of their ends, so the first has the earliest.
        earliest = self._operations[left[0]].ended
        for at in left:
            if self._operations[at].sent <= earliest:
                yield at
