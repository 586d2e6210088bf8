"""Expressions about recorded events, in CEL: `rewound replay --until 'object.spec.replicas > 3'`.

    event     a map: verb, user, manager, resource, group, kind, namespace, name, version, time, removed, reason
    object    the object after the event; of a removal, its last content
    old       the object before the event; null when there was none

All of them are of type dyn. An expression that cannot be evaluated, because a field is missing, does not hold. The
result must be a bool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from rewound.actors.cel.checker import check
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import Program, compile_program
from rewound.actors.cel.syntax import Problems
from rewound.actors.cel.types import BOOL, DYN, Environment
from rewound.actors.cel.values import MAX_INT, MIN_INT, CannotCompile, MapValue
from rewound.actors.names import Names
from rewound.actors.rewind.moments import rfc3339
from rewound.journal.records import Event

VARIABLES = ("event", "object", "old")

Described = Callable[[int], tuple[str, str, str]]  # type id -> resource, group, kind
Before = Callable[[Event], bytes | None]  # the object before an event


class BadExpression(Exception):
    """The text says where the expression is wrong."""


def compile_expression(text: str, names: Names, variables: tuple[str, ...] = VARIABLES) -> Program:
    """BadExpression."""
    expression = parse(text)
    if isinstance(expression, Problems):
        raise BadExpression(f"{text!r} is no expression: {expression}")
    checked = check(expression, Environment(dict.fromkeys(variables, DYN), {}, names.url_type))
    if isinstance(checked, Problems):
        raise BadExpression(f"{text!r} is no expression: {checked}")
    if checked.result not in (BOOL, DYN):
        raise BadExpression(f"{text!r} is neither true nor false")
    try:
        return compile_program(checked.expression, checked, variables)
    except CannotCompile as error:
        raise BadExpression(f"{text!r} cannot be compiled: {error}") from error


class Until:
    """Whether an expression holds for an event."""

    def __init__(self, program: Program, described: Described, before: Before) -> None:
        self._program = program
        self._described = described
        self._before = before

    def __call__(self, event: Event) -> bool:
        before = self._before(event) if event.previous else None
        variables = (
            cel_value(self._fields(event)),
            cel_value(orjson.loads(event.body)),
            None if before is None else cel_value(orjson.loads(before)),
        )
        return self._program.evaluate(variables).result is True

    def _fields(self, event: Event) -> dict[str, Any]:
        resource, group, kind = self._described(event.type_id)
        return {
            "verb": event.verb,
            "user": event.user,
            "manager": event.manager,
            "resource": resource,
            "group": group,
            "kind": kind,
            "namespace": event.namespace,
            "name": event.name,
            "version": event.offset,
            "time": rfc3339(event.time),
            "removed": event.removed,
            "reason": event.reason,
        }


def cel_value(raw: Any) -> Any:
    """A value of JSON as CEL has it."""
    if raw.__class__ is dict:
        return MapValue([(key, cel_value(value)) for key, value in raw.items()])
    if raw.__class__ is list:
        return [cel_value(one) for one in raw]
    if raw.__class__ is int and not MIN_INT <= raw <= MAX_INT:
        return float(raw)
    return raw
