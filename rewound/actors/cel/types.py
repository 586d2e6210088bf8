"""The types of CEL: how they compare, how messages print them, and which are assignable to which.

Types are compared with `==`; a message type is only its name. Messages print types in signatures of calls, and as the
text of the protobuf message that cel-go keeps them in.

Unification follows cel-go's rules: whether one type is assignable to another, and what type variables must be for it.
A failed attempt undoes its bindings. Types that the checker builds, and the steps of all attempts together, are
bounded: variables that stand for types with two variables each double the size of types at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rewound.actors.cel.language import Language


@dataclass(frozen=True, slots=True)
class Type:
    """A type by the name that messages print for it: int, list(string), duration, the name of a message type ..."""

    name: str
    parameters: tuple[Type, ...] = ()
    # Number of types that it consists of. The checker bounds it: types can double with every nested expression.
    size: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(parameter.size for parameter in self.parameters))

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.parameters))
        return f"{self.name}({inner})" if inner else self.name


@dataclass(frozen=True, slots=True)
class TypeParameter(Type):
    """A type variable: of a function's declaration, or one that the checker creates while it infers a type."""


BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null")
DYN: Final = Type("dyn")
ANY: Final = Type("any")  # google.protobuf.Any: dyn under another name
ERROR: Final = Type("!error!")
UNKNOWN: Final = Type("<nil>")  # the result of a call of an undeclared method
OPTIONAL: Final = "optional_type"
DURATION: Final = Type("duration")
TIMESTAMP: Final = Type("timestamp")


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type(OPTIONAL, (value,))


def is_optional(of: Type) -> bool:
    return of.name == OPTIONAL and of.__class__ is Type


def type_of(of: Type) -> Type:
    """Return the type of a type: that of `type(x)` and of the identifiers `int`, `string` ..."""
    return Type("type", (of,))


def wrapper_of(primitive: Type) -> Type:
    """Return a primitive type that includes null, such as that of google.protobuf.Int64Value."""
    return Type("wrapper", (primitive,))


@dataclass(frozen=True, slots=True)
class MessageType:
    """An object type with fields to select. `fields` may be filled after creation: types can be nested."""

    name: str
    fields: dict[str, Type]


@dataclass(frozen=True, slots=True)
class Environment:
    """What an expression may name: variables, message types by name, and the functions of its language."""

    variables: dict[str, Type]
    messages: dict[str, MessageType]
    language: Language
    mutates: bool = False  # it may construct objects and JSON patches: `mutations`


_PRINTED_PRIMITIVES: Final = {
    "bool": "BOOL",
    "int": "INT64",
    "uint": "UINT64",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BYTES",
}
_WHOLE: Final = {
    "null": "null:NULL_VALUE",
    "dyn": "dyn:{}",
    "!error!": "error:{}",
    "any": "well_known:ANY",
    "duration": "well_known:DURATION",
    "timestamp": "well_known:TIMESTAMP",
    "<nil>": "",
}


def signature(given: Sequence[Type], method: bool) -> str:
    """Return `receiver.(arguments)` or `(arguments)`."""
    if method:
        return f"{given[0]}.({', '.join(map(str, given[1:]))})"
    return f"({', '.join(map(str, given))})"


def as_message(of: Type) -> str:
    if of.name in _PRINTED_PRIMITIVES:
        return f"primitive:{_PRINTED_PRIMITIVES[of.name]}"
    if of.name in _WHOLE:
        return _WHOLE[of.name]
    if isinstance(of, TypeParameter):
        return f'type_param:"{of.name}"'
    inner = [as_message(parameter) for parameter in of.parameters]
    if of.name == "list":
        return f"list_type:{{elem_type:{{{inner[0]}}}}}"
    if of.name == "map":
        return f"map_type:{{key_type:{{{inner[0]}}} value_type:{{{inner[1]}}}}}"
    if of.name == "type":
        return f"type:{{{inner[0] if inner else ''}}}"
    if of.name == "wrapper":
        return f"wrapper:{_PRINTED_PRIMITIVES[of.parameters[0].name]}"
    return f'message_type:"{of.name}"'


_PRIMITIVES: Final = frozenset(("bool", "int", "uint", "double", "string", "bytes"))
_KINDS: Final = dict.fromkeys(_PRIMITIVES, "primitive") | {
    "null": "null",
    "dyn": "dyn",
    "any": "dyn",
    "!error!": "error",
    "<nil>": "unknown",
    "duration": "well-known",
    "timestamp": "well-known",
    "list": "list",
    "map": "map",
    "type": "type",
    "wrapper": "wrapper",
    OPTIONAL: "optional",
    "net.IP": "opaque",
    "net.CIDR": "opaque",
}
_NULLABLE: Final = frozenset(("object", "opaque", "null", "well-known", "wrapper", "optional"))
_WILD: Final = frozenset(("dyn", "error"))

LARGEST_TYPE: Final = 10_000
_STEPS: Final = 200_000
_STEPS_PER_CHARACTER: Final = 50


class TypeTooComplex(Exception):
    """Inferring the types of an expression takes more steps than any useful expression needs."""


def kind_of(of: Type) -> str:
    return "parameter" if of.__class__ is TypeParameter else _KINDS.get(of.name, "object")


class Bindings:
    """The type variables of one expression."""

    __slots__ = ("_bound", "_fresh", "_steps", "_trail")

    def __init__(self, source_length: int) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._fresh = 0
        self._steps = _STEPS + _STEPS_PER_CHARACTER * source_length

    def fresh(self) -> TypeParameter:
        self._fresh += 1
        return TypeParameter(f"_var{self._fresh - 1}")

    def assignable(self, given: Type, wanted: Type) -> bool:
        return self.all_assignable((given,), (wanted,))

    def all_assignable(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        self._trail.clear()
        if self._all_fit(given, wanted):
            return True
        for name, before in reversed(self._trail):
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def substitute(self, of: Type, unbound_is_dyn: bool = False) -> Type:
        """Return the type with every bound variable replaced."""
        found = self._substitute(of, unbound_is_dyn)
        if found.size > LARGEST_TYPE:
            raise TypeTooComplex
        return found

    def _substitute(self, of: Type, unbound_is_dyn: bool) -> Type:
        self._step()
        while of.__class__ is TypeParameter:
            bound = self._bound.get(of.name)
            if bound is None:
                return DYN if unbound_is_dyn else of
            of = bound
        if not of.parameters:
            return of
        return Type(of.name, tuple([self._substitute(inner, unbound_is_dyn) for inner in of.parameters]))

    def _bind(self, variable: Type, to: Type) -> None:
        if to.size > LARGEST_TYPE:
            raise TypeTooComplex
        self._trail.append((variable.name, self._bound.get(variable.name)))
        self._bound[variable.name] = to

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise TypeTooComplex

    def _all_fit(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        if len(given) != len(wanted):
            return False
        return all(map(self._fits, given, wanted))

    def _fits(self, given: Type, wanted: Type) -> bool:
        self._step()
        if wanted.__class__ is TypeParameter:
            fits, was_bound = self._stands_for(given, wanted)
            if fits or was_bound:
                return fits
        if given.__class__ is TypeParameter:
            return self._stands_for(wanted, given)[0]
        kind, other = kind_of(given), kind_of(wanted)
        if kind in _WILD or other in _WILD:
            return True
        if kind == "null":
            return other in _NULLABLE
        if kind == "wrapper":
            given, kind = given.parameters[0], "primitive"
        if kind == "primitive":
            return given.name == (wanted.parameters[0].name if other == "wrapper" else wanted.name)
        if kind != other or kind == "unknown":
            return False
        if kind == "list" or kind == "map" or kind == "optional":
            return self._all_fit(given.parameters, wanted.parameters)
        return kind == "type" or given.name == wanted.name

    def _stands_for(self, other: Type, variable: Type) -> tuple[bool, bool]:
        """Return whether `variable` can stand for `other`, and whether it was already bound."""
        if other == variable:
            return True, True
        bound = self._bound.get(variable.name)
        if bound is None:
            if self._occurs(variable, other):
                return False, False
            self._bind(variable, other)
            return True, False
        if other == bound:
            return True, True
        if not self._fits(other, bound):
            return False, True
        general = other if is_as_general(other, bound) else bound
        if not self._occurs(variable, general):
            self._bind(variable, general)
        return True, True

    def _occurs(self, variable: Type, within: Type) -> bool:
        seen: set[str] = set()
        waiting = [within]
        while waiting:
            self._step()
            of = waiting.pop()
            if of.__class__ is not TypeParameter:
                waiting.extend(of.parameters if of.name != "type" else ())
            elif of.name == variable.name:
                return True
            elif of.name not in seen:
                seen.add(of.name)
                bound = self._bound.get(of.name)
                if bound is not None:
                    waiting.append(bound)
        return False


def is_as_general(first: Type, second: Type) -> bool:
    """Whether `first` equals `second`, or has dyn or a variable where the second is more specific."""
    kind, other = kind_of(first), kind_of(second)
    if kind == "dyn" or kind == "parameter":
        return True
    if other == "dyn" or other == "parameter" or kind != other:
        return False
    if kind == "list" or kind == "map" or kind == "optional":
        return all(map(is_as_general, first.parameters, second.parameters))
    return kind == "type" or first == second


def bounded_list(item: Type) -> Type:
    return _bounded(list_of(item))


def bounded_map(key: Type, value: Type) -> Type:
    return _bounded(map_of(key, value))


def _bounded(made: Type) -> Type:
    if made.size > LARGEST_TYPE:
        raise TypeTooComplex
    return made
