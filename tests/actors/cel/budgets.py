"""Budgets of tests: one that counts the pauses, and ends an evaluation after some of them."""

from __future__ import annotations

from rewound.actors.runtime.budget import Budget


class Enough(Exception):
    pass


class CountingBudget(Budget):
    def __init__(self, most: int = 100_000) -> None:
        super().__init__()
        self.pauses, self._most = 0, most

    def pause(self) -> None:
        self.pauses += 1
        if self.pauses > self._most:
            raise Enough
