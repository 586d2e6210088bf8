"""What a validation rule in CEL costs a write: one rule that looks at all 20 fields of an object, in this process."""

from __future__ import annotations

from typing import Any

from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.workloads.in_process.ownership import measured
from benchmarks.workloads.workload import Workload
from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.data import IntegerShape, ObjectShape, Shape, StringShape
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import Program, compile_program
from rewound.actors.cel.syntax import Expression
from rewound.actors.cel.types import INT, STRING, Environment, MessageType, Type
from rewound.actors.names import CLUSTER

FIELDS = 10  # numbers, and as many texts
RULE = " && ".join(f"self.n{index} >= {index} && self.s{index}.size() < 10" for index in range(FIELDS))


def rule(sizes: Sizes) -> Measurement:
    shape, program = _shape(), _program()
    document: dict[str, Any] = {f"n{index}": index for index in range(FIELDS)}
    document |= {f"s{index}": "text" for index in range(FIELDS)}
    return measured("cel-rule", sizes, lambda: _evaluate(program, shape, document))


def _evaluate(program: Program, shape: Shape, document: dict[str, Any]) -> None:
    result, _ = program.evaluate((shape.wrap(document), None))
    assert result is True


def _shape() -> Shape:
    numbers: dict[str, Shape] = {f"n{index}": IntegerShape() for index in range(FIELDS)}
    return ObjectShape(numbers | {f"s{index}": StringShape() for index in range(FIELDS)})


def _program() -> Program:
    types = {f"n{index}": INT for index in range(FIELDS)} | {f"s{index}": STRING for index in range(FIELDS)}
    itself = Type("self")
    environment = Environment(
        {"self": itself, "oldSelf": itself}, {"self": MessageType("self", types)}, CLUSTER.url_type
    )
    expression = parse(RULE)
    assert isinstance(expression, Expression)
    checked = check(expression, environment)
    assert isinstance(checked, Checked)
    return compile_program(expression, checked, ("self", "oldSelf"))


CEL_RULE: tuple[Workload[Sizes], ...] = (
    Workload("cel-rule", "a rule that reads 20 fields of an object, evaluated", rule),
)
