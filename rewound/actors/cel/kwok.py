"""CEL expressions of kwok's objects, over `self` (or `pod`, `node`, `container`), with kwok's functions.

    compile_expression("self.status.phase == 'Pending' && SinceSecond(self) > 5.0", ("self",), language)

kwok has five functions that Kubernetes has not. They are rewritten in the syntax tree before it is checked, to what the
language has: `Now()` and `Rand()` are variables, `Quantity(x)` is the number that a quantity means, `SinceSecond(x)`
and `UnixSecond(x)` are arithmetic with times. Each may also be a method of its argument.

An expression that cannot be evaluated, because a field is missing, has no value (None). It runs in the event loop, so
one that exceeds its budget raises QueryError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import count
from random import Random
from typing import Any, Final

from rewound.actors.cel.checker import check
from rewound.actors.cel.json_data import from_json
from rewound.actors.cel.language import Language
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import compile_program
from rewound.actors.cel.syntax import Call, Expression, Identifier, Node, Problems, Select
from rewound.actors.cel.types import DOUBLE, DYN, TIMESTAMP, Environment
from rewound.actors.cel.values import (
    BudgetExceeded,
    CannotCompile,
    EvaluationError,
    EvaluationStopped,
    Timestamp,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.budget import Budget
from rewound.actors.versions.features import CEL_LIBRARIES, CEL_QUANTITIES

# A function of the variables, the time in microseconds, a source of random numbers, and the budget; None: it has no
# value.
Evaluate = Callable[[Mapping[str, Object], int, Random, Budget], Any]
_NOW, _RANDOM = "now of kwok", "random number of kwok"  # no identifiers of an expression
MOST_TEXT: Final = (
    2 << 10
)  # characters of an expression or a query: parsing takes up to 5 microseconds for each


MOST_PAUSES: Final = 15  # of an expression: about three milliseconds


class QueryError(ValueError):
    """The text is no expression or query, uses something unsupported, or takes too long."""


def language_of_stages(names: Names) -> Language:
    """The language of a server of any version: kwok brings its own."""
    return Language(names.url_type, frozenset((*CEL_LIBRARIES, CEL_QUANTITIES)))


def compile_expression(text: str, variables: tuple[str, ...], language: Language) -> Evaluate:
    """Compile an expression. Raises QueryError if it is invalid."""
    if len(text) > MOST_TEXT:
        raise QueryError(f"it has {len(text)} characters; at most {MOST_TEXT} are allowed")
    parsed = parse(text, language)
    if isinstance(parsed, Problems):
        raise QueryError(f"{text!r}: {parsed}")
    rewritten = replace(parsed, root=_Rewriting(parsed).node(parsed.root))
    names = (*variables, _NOW, _RANDOM)
    types = {**dict.fromkeys(variables, DYN), _NOW: TIMESTAMP, _RANDOM: DOUBLE}
    checked = check(rewritten, Environment(types, {}, language))
    if isinstance(checked, Problems):
        raise QueryError(f"{text!r}: {checked}")
    try:
        program = compile_program(checked.expression, checked, names)
    except CannotCompile as error:
        raise QueryError(f"{text!r}: {error}") from error

    def evaluate(values: Mapping[str, Object], now: int, source: Random, budget: Budget) -> Any:
        time = Timestamp(now // 1_000_000, now % 1_000_000 * 1000)
        given = [from_json(values[name]) for name in variables]
        found = program.evaluate((*given, time, source.random()), budget).result
        if isinstance(found, BudgetExceeded):
            raise QueryError(f"{text[:200]!r}: it has too many steps, or too large values: {found.message}")
        return None if isinstance(found, (EvaluationError, EvaluationStopped)) else found

    return evaluate


class _Rewriting:
    """Replaces kwok's functions in a syntax tree."""

    def __init__(self, parsed: Expression) -> None:
        self._positions = parsed.positions
        self._ids = count(max(_ids_of(parsed.root), default=0) + 1)

    def node(self, node: Node) -> Node:
        changed = {
            one.name: self._part(before)
            for one in fields(node)
            if isinstance(before := getattr(node, one.name), (Node, tuple))
        }
        found = replace(node, **changed) if changed else node
        return self._function(found) if isinstance(found, Call) else found

    def _part(self, part: Any) -> Any:
        if isinstance(part, Node):
            return self.node(part)
        return tuple(map(self._part, part)) if isinstance(part, tuple) else part

    def _function(self, call: Call) -> Node:
        given = call.arguments if call.target is None else (call.target, *call.arguments)
        match call.function, given:
            case "Now", ():
                return Identifier(call.id, _NOW)
            case "Rand", ():
                return Identifier(call.id, _RANDOM)
            case "Quantity", (of,):
                quantity = self._call(call, "quantity", of)
                return Call(call.id, "asApproximateFloat", (), quantity)
            case "UnixSecond", (of,):
                return self._seconds(call, of)
            case "SinceSecond", (of,):
                created = Select(
                    self._new(call), Select(self._new(call), of, "metadata"), "creationTimestamp"
                )
                now = self._seconds(call, Identifier(self._new(call), _NOW))
                return self._call(call, "_-_", now, self._seconds(call, created))
        return call

    def _seconds(self, place: Node, time: Node) -> Node:
        """double(int(timestamp(time)))"""
        for function in ("timestamp", "int", "double"):
            time = self._call(place, function, time)
        return time

    def _call(self, place: Node, function: str, *arguments: Node) -> Node:
        return Call(self._new(place), function, arguments)

    def _new(self, place: Node) -> int:
        number = next(self._ids)
        self._positions[number] = self._positions.get(place.id, 0)
        return number


def _ids_of(part: Any) -> Iterator[int]:
    if isinstance(part, tuple):
        for one in part:
            yield from _ids_of(one)
    elif isinstance(part, Node) and is_dataclass(part):
        yield part.id
        for one in fields(part):
            yield from _ids_of(getattr(part, one.name))
