"""Expressions about recorded events, in CEL: `rewound replay --stop-when 'object.spec.replicas > 3'`.

    event     a map: verb, user, manager, resource, group, kind, namespace, name, version, time, removed, reason
    object    the object after the event; of a removal, its last content
    old       the object before the event; null when there was none

All of them are of type dyn. An expression that cannot be evaluated, because a field is missing, does not hold. The
result must be a bool.

`check_fields` refuses an expression with a field that no kind of the recording has: it would never hold, and the replay
would play to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final

import orjson

from rewound.actors.cel.checker import check
from rewound.actors.cel.language import Language
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import Program, compile_program
from rewound.actors.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    Node,
    Problems,
    Select,
    conjuncts,
)
from rewound.actors.cel.types import BOOL, DYN, Environment
from rewound.actors.cel.values import (
    MAX_INT,
    MIN_INT,
    CannotCompile,
    EvaluationError,
    EvaluationStopped,
    MapValue,
)
from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.custom import parsed
from rewound.actors.kinds.declaration.meta import OBJECT_META
from rewound.actors.kinds.schema.fields import ANY_JSON, FIELDS_V1, STRING, JsonValue, ListOf, MapOf, Struct
from rewound.actors.names import CLUSTER, NAMES, Names
from rewound.actors.rewind.moments import rfc3339
from rewound.actors.runtime.budget import StepBudget
from rewound.actors.versions.features import release_of
from rewound.journal.log import Journal
from rewound.journal.records import Event

VARIABLES = ("event", "object", "old")

EVENT_FIELDS: Final = (
    *("verb", "user", "manager", "resource", "group", "kind", "namespace", "name"),
    *("version", "time", "removed", "reason"),
)


@dataclass(frozen=True, slots=True)
class TypeNames:
    """The names of a type in the API; kind and apiVersion are empty if it is not served."""

    resource: str
    group: str
    kind: str = ""
    api_version: str = ""


Described = Callable[[int], TypeNames]  # by type id
Before = Callable[[Event], bytes | None]  # the object before an event


# Pauses of one evaluation: more than the counted cost allows, so that this only ends what it does not count.
MOST_PAUSES: Final = 1_000


class BadExpression(Exception):
    """An expression is invalid; the text says where."""


def compile_expression(text: str, names: Names, variables: tuple[str, ...] = VARIABLES) -> Program:
    """Compile an expression. Raises BadExpression if it is invalid or not a bool."""
    language = Language(names.url_type)
    expression = parse(text, language)
    if isinstance(expression, Problems):
        raise BadExpression(f"{text!r} is not an expression: {expression}")
    checked = check(expression, Environment(dict.fromkeys(variables, DYN), {}, language))
    if isinstance(checked, Problems):
        raise BadExpression(f"{text!r} is not an expression: {checked}")
    if checked.result not in (BOOL, DYN):
        raise BadExpression(f"{text!r} is neither true nor false")
    try:
        return compile_program(checked.expression, checked, variables)
    except CannotCompile as error:
        raise BadExpression(f"{text!r} cannot be compiled: {error}") from error


class Until:
    """Evaluates an expression for events, and remembers why it could not be evaluated."""

    def __init__(self, program: Program, described: Described, before: Before) -> None:
        self._program = program
        self._described = described
        self._before = before
        self.held = False
        self._tried = self._failed = 0
        self._error = ""  # the newest

    def __call__(self, event: Event) -> bool:
        names = self._described(event.type_id)
        before = self._before(event) if event.previous else None
        variables = (
            cel_value(_event(event, names)),
            cel_value(_object(event.body, names)),
            None if before is None else cel_value(_object(before, names)),
        )
        result = self._program.evaluate(variables, StepBudget(MOST_PAUSES)).result
        self._tried += 1
        if isinstance(result, EvaluationError | EvaluationStopped):
            self._failed, self._error = self._failed + 1, result.message
        self.held = self.held or result is True
        return result is True

    def never_held(self) -> str:
        """The message at the end if it never held."""
        text = f"the expression held for none of {self._tried:,} events"
        if not self._failed:
            return text
        return f"{text}; for {self._failed:,} of them it could not be evaluated: {self._error}"


def _object(body: bytes, names: TypeNames) -> dict[str, Any]:
    """The object as clients get it: stored objects have no kind, and those of built-in kinds no apiVersion."""
    return {"apiVersion": names.api_version, "kind": names.kind, **orjson.loads(body)}


def _event(event: Event, names: TypeNames) -> dict[str, Any]:
    return {
        "verb": event.verb,
        "user": event.user,
        "manager": event.manager,
        "resource": names.resource,
        "group": names.group,
        "kind": names.kind,
        "namespace": event.namespace,
        "name": event.name,
        "version": event.offset,
        "time": rfc3339(event.time),
        "removed": event.removed,
        "reason": event.reason,
    }


# Fields of expressions, compared with the schemas of the kinds.

_ANYTHING: Final = object()  # a value of which no schema says what is in it

# The shape of a value: a declared type, a JSON schema of a custom kind, _ANYTHING, or None if it does not exist.
Shape = Any


@dataclass(frozen=True, slots=True)
class KindShape:
    """A kind of the recording; without a definition, `kind` is not known and objects may hold anything."""

    resource: str
    group: str
    kind: str
    shape: Shape


def shapes_of(recording: Journal) -> list[KindShape]:
    """The kinds of a recording and the fields of their objects, by the definitions at its end."""
    names = NAMES[recording.dialect]
    known = {
        one.type_name: (one.kind, one.fields)
        for one in built_in(names, release_of(recording.kubernetes)).declared
        if not one.storage.stored_as and one.is_stored
    }
    known |= _custom_shapes(recording, names)
    found = []
    for type_name in recording.types():
        resource, _, group = type_name.partition(".")
        kind, shape = known.get(type_name, ("", _ANYTHING))
        found.append(KindShape(resource, group, kind, shape))
    return found


def _custom_shapes(recording: Journal, names: Names) -> dict[str, tuple[str, Shape]]:
    type_id = recording.type_id(definition_type(names))
    found: dict[str, tuple[str, Shape]] = {}
    with recording.read() as view:
        for _, _, row in view.rows(type_id, "") if type_id else ():
            spec = parsed(row.body)["spec"]
            schemas = [one.get("schema", {}).get("openAPIV3Schema") for one in spec["versions"]]
            shape = _CustomObject(schemas) if all(schemas) else _ANYTHING
            found[f"{spec['names']['plural']}.{spec['group']}"] = (spec["names"]["kind"], shape)
    return found


class _Versions(list[Shape]):
    """A value of a custom kind in each version of it: an object has the fields of one of them."""


class _CustomObject(_Versions):
    """The object itself, whose metadata no schema describes."""


def check_fields(text: str, recording: Journal) -> None:
    """Raises BadExpression if the expression has a field that no event, or no object of its kinds, can have."""
    expression = parse(text, Language(CLUSTER.url_type))
    assert not isinstance(expression, Problems), "it was compiled before"
    try:
        _check(expression.root, shapes_of(recording), {})
    except BadExpression as error:
        raise BadExpression(f"{text!r} never holds: {error}") from None


Known = Mapping[str, list[Shape]]  # variables of macros: what each may hold, by kind


def _check(node: Node, kinds: list[KindShape], variables: Known) -> None:
    """Walk the operators that decide for which kinds a part of the expression is evaluated."""
    if isinstance(node, Call) and node.function == "_&&_":
        parts = list(conjuncts(node))
        for one in parts:
            kinds = _narrowed(one, kinds)
        for one in parts:
            _check(one, kinds, variables)
    elif isinstance(node, Call) and node.function == "_||_":
        for one in node.arguments:
            _check(one, kinds, variables)
    else:
        _shapes(node, _narrowed(node, kinds), variables)


def _narrowed(node: Node, kinds: list[KindShape]) -> list[KindShape]:
    """The kinds for which a comparison such as event.kind == "Pod" may be true."""
    if not (isinstance(node, Call) and node.function == "_==_"):
        return kinds
    for one, other in (node.arguments, node.arguments[::-1]):
        if not (isinstance(one, Select) and isinstance(one.operand, Identifier)):
            continue
        variable, field = one.operand.name.lstrip("."), one.field
        named = variable == "event" and field in ("resource", "group", "kind")
        if (named or (variable, field) == ("object", "kind")) and isinstance(other, Constant):
            found = [kind for kind in kinds if _matches(kind, field, other.value)]
            if not found:
                known = sorted({getattr(kind, field) for kind in kinds} - {""})
                raise BadExpression(
                    f"no event of the recording has the {field} {other.value!r}; {_near(str(other.value), known)}"
                )
            return found
    return kinds


def _matches(kind: KindShape, field: str, value: object) -> bool:
    return getattr(kind, field) == value or (field == "kind" and not kind.kind)


def _near(name: str, known: Iterable[str]) -> str:
    known = list(known)
    lower = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), lower, n=1)
    if near:
        return f"did you mean {lower[near[0]]}?"
    return f"there are {', '.join(known)}" if known else "there are none"


def _shapes(node: Node, kinds: list[KindShape], variables: Known) -> list[Shape]:
    """The possible shapes of a node's value, for each kind. Raises BadExpression for a field that none has."""
    anything: list[Shape] = [_ANYTHING] * len(kinds)
    match node:
        case Identifier():
            name = node.name.lstrip(".")
            if name in ("object", "old") and name not in variables:
                return [kind.shape for kind in kinds]
            if name == "event" and name not in variables:
                return [_EVENT] * len(kinds)
            return variables.get(name, anything)
        case Select():
            return _selected(_shapes(node.operand, kinds, variables), node.field, node.operand)
        case Call(function="_[_]", arguments=(operand, Constant(value=str() as field))):
            return _selected(_shapes(operand, kinds, variables), field, operand)
        case Call(function="_[_]", arguments=(operand, index)):
            _shapes(index, kinds, variables)
            return [_item(shape) for shape in _shapes(operand, kinds, variables)]
        case Comprehension():
            items = [_item(shape) for shape in _shapes(node.range, kinds, variables)]
            inner = {**variables, node.variable: items, node.accumulator: anything}
            _shapes(node.initial, kinds, variables)
            for part in (node.condition, node.step, node.result):
                _shapes(part, kinds, inner)
            return anything
        case _:
            for part in _parts(node):
                _shapes(part, kinds, variables)
            return anything


def _parts(node: Node) -> Iterator[Node]:
    """The nodes directly below one."""
    found = [getattr(node, one.name) for one in fields(node)]
    while found:
        value = found.pop(0)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            found = [*value, *found]


def _selected(shapes: list[Shape], field: str, operand: Node) -> list[Shape]:
    found = [_member(shape, field) for shape in shapes]
    if found and all(one is None for one in found) and any(shape is not None for shape in shapes):
        known = sorted({name for shape in shapes for name in _members(shape)})
        where = _path(operand)
        if not known:
            raise BadExpression(f"{where} has no fields, so it has no {field!r}")
        raise BadExpression(f"{where} has no field {field!r}; {_near(field, known)}")
    return found


def _path(node: Node) -> str:
    match node:
        case Identifier():
            return node.name.lstrip(".")
        case Select():
            return f"{_path(node.operand)}.{node.field}"
        case Call(function="_[_]"):
            return f"{_path(node.arguments[0])}[]"
        case _:
            return "a value"


_EVENT: Final = {"type": "object", "properties": {name: {"type": "string"} for name in EVENT_FIELDS}}


def _member(shape: Shape, name: str) -> Shape:
    """The shape of a field; None if there is no such field."""
    if isinstance(shape, _CustomObject) and name in ("apiVersion", "kind", "metadata"):
        return OBJECT_META if name == "metadata" else STRING
    if isinstance(shape, _Versions):
        found = [one for version in shape if (one := _member(version, name)) is not None]
        return _Versions(found) if found else None
    if isinstance(shape, Struct):
        if name in shape.by_name:
            return shape.by_name[name].type
        return STRING if name in ("apiVersion", "kind") else None
    if isinstance(shape, MapOf):
        return shape.value
    if isinstance(shape, dict):
        return _member_of_schema(shape, name)
    return _ANYTHING if _is_free(shape) else None


def _member_of_schema(schema: dict[str, Any], name: str) -> Shape:
    if name in schema.get("properties", {}):
        return schema["properties"][name]
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return additional
    return _ANYTHING if additional or _is_open(schema) else None


def _is_open(schema: dict[str, Any]) -> bool:
    """Whether objects may have fields that the schema does not name. The prefix of extensions is the dialect's."""
    if "type" not in schema or any(one in schema for one in ("allOf", "anyOf", "oneOf")):
        return True
    return any(
        schema[one] and one.endswith(("preserve-unknown-fields", "embedded-resource")) for one in schema
    )


def _item(shape: Shape) -> Shape:
    """The shape of a list's items or a map's values; in a macro over a map it is a key, which has no fields."""
    if isinstance(shape, _Versions):
        return _Versions([one for version in shape if (one := _item(version)) is not None]) or None
    if isinstance(shape, ListOf):
        return shape.item
    if isinstance(shape, dict):
        return shape.get("items", _ANYTHING)
    return None if shape is None else _ANYTHING


def _is_free(shape: Shape) -> bool:
    return shape is _ANYTHING or shape in (ANY_JSON, FIELDS_V1) or isinstance(shape, JsonValue)


def _members(shape: Shape) -> Iterable[str]:
    if isinstance(shape, _Versions):
        return [name for version in shape for name in _members(version)]
    if isinstance(shape, Struct):
        return shape.by_name
    if isinstance(shape, dict):
        return list(shape.get("properties", {}))
    return ()


def cel_value(raw: Any) -> Any:
    """Convert a JSON value to CEL."""
    if raw.__class__ is dict:
        return MapValue([(key, cel_value(value)) for key, value in raw.items()])
    if raw.__class__ is list:
        return [cel_value(one) for one in raw]
    if raw.__class__ is int and not MIN_INT <= raw <= MAX_INT:
        return float(raw)
    return raw
