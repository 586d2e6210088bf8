"""Budgets of tests: ample ones, and one that counts what an evaluation visits."""

from __future__ import annotations

from rewound.actors.kinds.json_path import PathBudget
from rewound.actors.runtime.budget import Budget, OverBudget


def ample() -> Budget:
    return PathBudget(60)


class CountingBudget(Budget):
    """Has no clock: it ends an evaluation at a number of pauses."""

    __slots__ = ("most_pauses", "pauses", "visited")

    def __init__(self, most_pauses: int = 1 << 30) -> None:
        super().__init__()
        self.most_pauses = most_pauses
        self.pauses = self.visited = 0

    def visit(self, count: int) -> None:
        self.visited += count
        super().visit(count)

    def pause(self) -> None:
        self.pauses += 1
        if self.pauses > self.most_pauses:
            raise OverBudget("it pauses too often")
