"""Programs: checked expressions that are ready to be evaluated.

`compile_program` turns the tree into Python closures, once for each rule of a definition. An evaluation costs exactly
what cel-go's costs, and ends at the limit of one rule (`costs`).

A unit of cost takes about 0.1 microseconds, so that the most expensive rule would block the event loop for a tenth of
a second. What compares, copies or prints lists and maps costs a unit however large they are, as in cel-go: it counts
the values that it visits in the budget. The budget pauses about every 0.2 milliseconds, and raises to end the
evaluation. On the event loop it raises to move the evaluation to a worker thread (`actors.runtime.budget`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rewound.actors.cel.costs import LIMIT, STRIDE, Cells, exceeded
from rewound.actors.cel.planner import Checked, Planner
from rewound.actors.cel.syntax import Expression
from rewound.actors.cel.values import BudgetExceeded, EvaluationError, EvaluationStopped, NoSuchItem
from rewound.actors.runtime.budget import Budget, OverBudget
from rewound.actors.versions.features import CEL_LENIENT_HAS


class Evaluation(NamedTuple):
    """The result, which is a CEL value, an EvaluationError or an EvaluationStopped, and its cost."""

    result: Any
    cost: int


class Program:
    __slots__ = ("_padding", "_run", "_words_later")

    def __init__(self, run: Callable[[Cells], Any], cells: int, *, words_later: bool = False) -> None:
        """`words_later`: errors have the texts of later versions."""
        self._run, self._words_later = run, words_later
        self._padding: list[Any] = [None] * cells

    def evaluate(self, variables: Sequence[Any], budget: Budget) -> Evaluation:
        """Evaluate. `variables` are in the order of `compile_program`; the EvaluationError of a value stands for it.

        Beyond the budget the result is BudgetExceeded. Raises what else the budget's `pause` raises, and nothing else.
        """
        cells: Cells = [0, STRIDE, budget, *variables, *self._padding]
        try:
            result = self._run(cells)
            if cells[0] > LIMIT:
                raise exceeded(cells)
        except (EvaluationError, EvaluationStopped) as error:
            result = error if cells[0] <= LIMIT or isinstance(error, EvaluationStopped) else exceeded(cells)
            if self._words_later and isinstance(result, NoSuchItem):
                result = EvaluationError(result.later)
        except OverBudget as error:
            result = BudgetExceeded(f"internal error: {error}")
        except RecursionError:
            result = EvaluationStopped("internal error: the rule or the value is nested too deeply")
        return Evaluation(result, cells[0])


def compile_program(expression: Expression, checked: Checked, variables: tuple[str, ...]) -> Program:
    """Compile an expression. Raises CannotCompile if a constant in it is invalid.

    `checked` has the types and references that the checker found; `variables` are the names that it may use.
    """
    planner = Planner(checked, variables)
    step = planner.plan(expression.root)
    words_later = CEL_LENIENT_HAS in checked.language.features
    return Program(step.run, planner.cells - len(variables), words_later=words_later)
