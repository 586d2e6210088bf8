"""Evaluates expressions over a small object, with the results of the type checker, as a server does."""

from __future__ import annotations

from typing import Any

from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.data import (
    BooleanShape,
    IntegerShape,
    IntOrStringShape,
    ListShape,
    MapShape,
    NumberShape,
    ObjectShape,
    OpaqueObjectShape,
    Shape,
    StringShape,
)
from rewound.actors.cel.language import Language
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import Evaluation, Program, compile_program
from rewound.actors.cel.syntax import Expression
from rewound.actors.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Environment,
    MessageType,
    Type,
    list_of,
    map_of,
)
from rewound.actors.cel.values import EvaluationError, EvaluationStopped
from rewound.actors.names import CLUSTER
from tests.actors.cel.budgets import CountingBudget

ITEM = Type("self.item")
TYPES = {
    "i": INT,
    "j": INT,
    "f": DOUBLE,
    "b": BOOL,
    "s": STRING,
    "any": DYN,
    "date": TIMESTAMP,
    "time": TIMESTAMP,
    "wait": DURATION,
    "data": BYTES,
    "list": list_of(INT),
    "texts": list_of(STRING),
    "set": list_of(STRING),
    "keyed": list_of(ITEM),
    "map": map_of(STRING, INT),
    "nulls": list_of(STRING),
    "a__dot__b": INT,
    "__in__": INT,
    "plain": Type("self.plain"),
}
_ITEM_SHAPE = ObjectShape({"k": StringShape(), "v": IntegerShape()})
SHAPES: dict[str, Shape] = {
    "i": IntegerShape(),
    "j": IntegerShape(),
    "f": NumberShape(),
    "b": BooleanShape(),
    "s": StringShape(),
    "any": IntOrStringShape(),
    "date": StringShape("date"),
    "time": StringShape("date-time"),
    "wait": StringShape("duration"),
    "data": StringShape("byte"),
    "list": ListShape(IntegerShape()),
    "texts": ListShape(StringShape()),
    "set": ListShape(StringShape(), "set"),
    "keyed": ListShape(_ITEM_SHAPE, "map", ("k",)),
    "map": MapShape(IntegerShape()),
    "nulls": ListShape(StringShape(nullable=True)),
    "a.b": IntegerShape(),
    "in": IntegerShape(),
    "plain": OpaqueObjectShape(),
}
LANGUAGE = Language(CLUSTER.url_type)  # that of Kubernetes 1.25
ENVIRONMENT = Environment(
    {"self": Type("self"), "oldSelf": Type("self")},
    {
        "self": MessageType("self", TYPES),
        "self.item": MessageType("self.item", {"k": STRING, "v": INT}),
        "self.plain": MessageType("self.plain", {}),
    },
    LANGUAGE,
)
OBJECT: dict[str, Any] = {
    "i": 7,
    "f": 1.5,
    "b": True,
    "s": "héllo wörld",
    "any": "50%",
    "date": "2021-02-03",
    "time": "2021-02-03T04:05:06.789+02:00",
    "wait": "1h30m",
    "data": "aGVsbG8=",
    "list": [3, 1, 2],
    "texts": ["a", "bb", "ccc"],
    "set": ["x", "y"],
    "keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
    "map": {"one": 1, "two": 2},
    "nulls": ["a", None],
    "a.b": 1,
    "in": 2,
    "plain": {"x": 1},
}


def program(rule: str) -> Program:
    expression = parse(rule, LANGUAGE)
    assert isinstance(expression, Expression), str(expression)
    checked = check(expression, ENVIRONMENT)
    assert isinstance(checked, Checked), str(checked)
    return compile_program(expression, checked, ("self", "oldSelf"))


def variables(new: dict[str, Any] | None = None, old: Any = None) -> tuple[Any, Any]:
    shape = ObjectShape(SHAPES)
    return shape.wrap(OBJECT if new is None else new), None if old is None else shape.wrap(old)


def evaluate(rule: str, new: dict[str, Any] | None = None) -> Evaluation:
    return program(rule).evaluate(variables(new), CountingBudget())


def outcome(rule: str, new: dict[str, Any] | None = None) -> Any:
    """The value, or the message of an error."""
    result = evaluate(rule, new).result
    return result.message if isinstance(result, EvaluationError | EvaluationStopped) else result
