"""Budgets end an evaluation by its processor time, its steps and the memory of its values."""

from __future__ import annotations

import pytest

from rewound.actors.runtime.budget import STRIDE, Budget, OverBudget, StepBudget, ThreadBudget
from rewound.actors.runtime.time_limit import NeedsThread, TookTooLong, run_limited


class Pauses(Budget):
    count = 0

    def pause(self) -> None:
        self.count += 1


def test_visits_pause_after_a_number_of_values() -> None:
    budget = Pauses()
    for _ in range(3 * (STRIDE + 1)):
        budget.visit(1)
    assert budget.count == 3
    budget.visit(10**12)
    assert budget.count == 4


def test_memory_is_counted_before_it_is_used() -> None:
    budget = Pauses(memory=100)
    budget.take(60)
    budget.take(40)
    with pytest.raises(OverBudget, match="memory"):
        budget.take(1)


def test_steps_end_an_evaluation_that_cannot_move() -> None:
    budget = StepBudget(2)
    budget.pause()
    budget.pause()
    with pytest.raises(OverBudget, match="too many steps"):
        budget.pause()


def test_first_pause_in_the_event_loop_asks_for_a_thread() -> None:
    with pytest.raises(NeedsThread):
        ThreadBudget().pause()


def test_evaluation_in_a_thread_ends_with_its_own_seconds() -> None:
    def work(seconds: float) -> None:
        budget = ThreadBudget(seconds)
        while True:
            budget.pause()

    with pytest.raises(OverBudget, match=r"0\.02 s of processor time"):
        run_limited(work, 0.02)
    with pytest.raises(TookTooLong):
        run_limited(work, 60, seconds=0.02)
