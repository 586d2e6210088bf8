"""Infers the types of an expression, and finds the overloads that its calls may resolve to: cel-go's checker.

As configured in v1.25: all items of a list literal have one type, and so have the keys and the values of a map
literal; numbers of different types do not compare. cel-go 0.12 drops the second restriction after it has checked a
macro's loop; so does this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rewound.actors.cel import mutations
from rewound.actors.cel.declarations import (
    MESSAGE_FIELDS,
    MIXED_COMPARISONS,
    WELL_KNOWN,
    Overload,
    functions,
    identifiers,
)
from rewound.actors.cel.language import Language
from rewound.actors.cel.lexer import RESERVED
from rewound.actors.cel.literals import check_literals
from rewound.actors.cel.syntax import (
    NOWHERE,
    Call,
    Comprehension,
    Constant,
    Expression,
    Identifier,
    ListLiteral,
    Location,
    MapLiteral,
    MessageLiteral,
    Node,
    Problems,
    Select,
    Source,
)
from rewound.actors.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    UNKNOWN,
    Bindings,
    Environment,
    Type,
    TypeParameter,
    TypeTooComplex,
    as_message,
    bounded_list,
    bounded_map,
    is_as_general,
    is_optional,
    kind_of,
    optional_of,
    signature,
    type_of,
)
from rewound.actors.cel.values import Uint
from rewound.actors.versions.features import (
    CEL_KEYWORDS,
    CEL_MIXED_LITERALS,
    CEL_MIXED_NUMBERS,
    CEL_OPTIONAL_TYPE,
    PLAIN_RESOLUTION_TEXTS,
    TYPES_IN_WORDS,
)


@dataclass(frozen=True, slots=True)
class Reference:
    """What a node refers to: a variable or type by name, or the overloads that the call may resolve to at run time.

    A call whose function has dots in its name, `optional.of(1)`, has both.
    """

    name: str = ""
    overloads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked expression. A Select with a reference is not a selection but a name with dots."""

    expression: Expression
    types: dict[int, Type]
    references: dict[int, Reference]
    language: Language

    @property
    def result(self) -> Type:
        return self.types[self.expression.root.id]

    def names(self, variable: str) -> bool:
        """Whether the expression uses `variable`, or a macro's variable of that name."""
        return any(reference.name == variable for reference in self.references.values())


def check(expression: Expression, environment: Environment) -> Checked | Problems:
    checker = _Checker(expression, environment)
    try:
        checker.check(expression.root)
        if not checker.problems.count:
            types = {number: checker.bindings.substitute(of, True) for number, of in checker.types.items()}
            if CEL_MIXED_LITERALS in environment.language.features:
                check_literals(expression.root, types, environment.language.features, checker.report)
        if not checker.problems.count:
            return Checked(expression, types, checker.references, environment.language)
    except TypeTooComplex:
        checker.problems.report(NOWHERE, "types of the expression are too complex")
    return checker.problems


class _Checker:
    def __init__(self, expression: Expression, environment: Environment) -> None:
        self.problems = Problems(Source(expression.source))
        self.bindings = Bindings(len(expression.source))
        self.types: dict[int, Type] = {}
        self.references: dict[int, Reference] = {}
        self._positions = expression.positions
        self._environment = environment
        self._functions = functions(environment.language)
        self._scopes: list[tuple[str, Type]] = []
        self._identifiers = identifiers(environment.language)
        features = environment.language.features
        self._types_in_words = TYPES_IN_WORDS in features
        self._short_optional = CEL_OPTIONAL_TYPE not in features
        self._resolves_plainly = PLAIN_RESOLUTION_TEXTS in features
        self._mixed_literals = CEL_MIXED_LITERALS in features
        self._excluded = frozenset() if CEL_MIXED_NUMBERS in features else MIXED_COMPARISONS
        self._line_ends = _line_ends(expression.source)

    def check(self, node: Node) -> Type:
        """Return the type of `node`, which may contain type variables that later checks bind."""
        found = self.types[node.id] = _CHECKS[node.__class__](self, node)
        return found

    def _constant(self, node: Constant) -> Type:
        return _CONSTANTS[node.value.__class__]

    def _identifier(self, node: Identifier) -> Type:
        name = node.name.removeprefix(".")
        found = self._lookup(name)
        if found is None:
            self.report(node, f"undeclared reference to '{node.name}' (in container '')")
            return ERROR
        self.references[node.id] = Reference(name)
        return found

    def _lookup(self, name: str) -> Type | None:
        for variable, of in reversed(self._scopes):
            if variable == name:
                return of
        found = self._environment.variables.get(name) or self._identifiers.get(name)
        if found is None and self._environment.mutates and mutations.is_type(name):
            return type_of(Type(name))
        return found

    def _select(self, node: Select) -> Type:
        name = qualified_name(node)
        found = self._lookup(name) if name else None
        if found is not None:
            self.references[node.id] = Reference(name)
            return found
        result = self._selected(node, node.operand, node.field)
        return BOOL if node.test_only else self.bindings.substitute(result)

    def _optional_select(self, node: Call) -> Type:
        """a.?b: the parser has made the field a constant."""
        operand, field = node.arguments
        assert isinstance(field, Constant)
        found = self._selected(node, operand, field.value)
        self.references[node.id] = Reference("", ("select_optional_field",))
        return self.bindings.substitute(found if is_optional(found) else optional_of(found))

    def _selected(self, node: Node, operand: Node, field: str) -> Type:
        """Return the type of a selection, which is optional if the operand is."""
        of = self.bindings.substitute(self.check(operand))
        if is_optional(of):
            return optional_of(self._field(node, of.parameters[0], field))
        return self._field(node, of, field)

    def _field(self, node: Node, operand: Type, field: str) -> Type:
        kind = kind_of(operand)
        if kind == "map":
            return operand.parameters[1]
        if kind == "object":
            return self._field_type(node.id, operand.name, field) or ERROR
        if kind == "parameter":
            self.bindings.assignable(DYN, operand)
            return DYN
        if kind == "dyn" or kind == "error":
            return DYN
        shown = operand if self._types_in_words else as_message(operand)
        self.report(node, f"type '{shown}' does not support field selection")
        return DYN if self._types_in_words else ERROR

    def _field_type(self, place: int, message: str, name: str) -> Type | None:
        if self._environment.mutates and mutations.is_type(message):
            return mutations.field_type(message, name)
        declared = self._environment.messages.get(message)
        fields = declared.fields if declared is not None else MESSAGE_FIELDS.get(message)
        if fields is None:
            text = f"unexpected failed resolution of '{message}'"
            self._report_at(place, text if self._resolves_plainly else f"[internal] {text}")
            return None
        found = fields.get(name)
        if found is None and name in RESERVED and CEL_KEYWORDS in self._environment.language.features:
            found = fields.get(f"__{name}__")
        if found is None:
            self._report_at(place, f"undefined field '{name}'")
        return found

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            return self._optional_select(node)
        given = [self.check(argument) for argument in node.arguments]
        overloads = self._functions.get(node.function.removeprefix("."))
        if node.target is not None and (qualified := self._qualified_function(node)) is not None:
            return self._resolve(node, qualified, given, method=False)
        if node.target is not None:
            given.insert(0, self.check(node.target))
        if overloads is None:
            self.report(node, f"undeclared reference to '{node.function}' (in container '')")
            return ERROR if node.target is None or self._types_in_words else UNKNOWN
        return self._resolve(node, overloads, given, method=node.target is not None)

    def _qualified_function(self, node: Call) -> tuple[Overload, ...] | None:
        """Return the function if its name has dots: `optional.of(1)` is no call of a method."""
        prefix = qualified_name(node.target)
        return self._functions.get(f"{prefix}.{node.function}") if prefix else None

    def _resolve(
        self, node: Call, overloads: tuple[Overload, ...], given: list[Type], *, method: bool
    ) -> Type:
        """Return the result type of all overloads that fit, or dyn if they differ."""
        bindings = self.bindings
        if self._types_in_words and node.function in ("_&&_", "_||_"):
            return self._logical(node, overloads[0], given)
        matching: list[str] = []
        result: Type | None = None
        for overload in overloads:
            if overload.method is not method or overload.id in self._excluded:
                continue
            parameters, returned = _instance(overload, bindings)
            if not bindings.all_assignable(given, parameters):
                continue
            matching.append(overload.id)
            returned = bindings.substitute(returned)
            if result is None:
                result = returned
            elif kind_of(result) != "dyn" and returned != result:
                result = DYN
        if result is None:
            shown = [bindings.substitute(of, True) for of in given] if self._types_in_words else given
            name, applied = overloads[0].function, signature(shown, method)
            self.report(node, f"found no matching overload for '{name}' applied to '{applied}'")
            return ERROR
        name = overloads[0].function if node.target is not None and not method else ""
        self.references[node.id] = Reference(name, tuple(matching))
        return result

    def _logical(self, node: Call, overload: Overload, given: list[Type]) -> Type:
        wrong = False
        for argument, of in zip(node.arguments, given, strict=True):
            if not self.bindings.assignable(of, BOOL):
                self.report(argument, f"expected type 'bool' but found '{of}'")
                wrong = True
        if wrong:
            return ERROR
        self.references[node.id] = Reference("", (overload.id,))
        return BOOL

    def _list(self, node: ListLiteral) -> Type:
        item: Type | None = None
        for index, element in enumerate(node.items):
            of = self.check(element)
            item = self._join(element, item, self._unwrapped(element, of) if index in node.optional else of)
        return bounded_list(item or self.bindings.fresh())

    def _map(self, node: MapLiteral) -> Type:
        key: Type | None = None
        value: Type | None = None
        for index, (key_node, value_node) in enumerate(node.entries):
            key = self._join(key_node, key, self.check(key_node))
            of = self.check(value_node)
            of = self._unwrapped(value_node, of) if index in node.optional else of
            value = self._join(value_node, value, of)
        return bounded_map(key or self.bindings.fresh(), value or self.bindings.fresh())

    def _unwrapped(self, node: Node, of: Type) -> Type:
        """Return the type of the value of an optional item, entry or field."""
        if is_optional(of):
            return of.parameters[0]
        if kind_of(of) != "dyn":
            self.report(node, f"expected type '{optional_of(of)}' but found '{of}'")
        return of

    def _join(self, node: Node, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.bindings.assignable(previous, current):
            return previous if is_as_general(previous, current) else current
        if self._mixed_literals:
            return DYN
        self.report(node, f"expected type '{previous}' but found '{current}'")
        return ERROR

    def _message(self, node: MessageLiteral) -> Type:
        name = node.name.removeprefix(".")
        named = self._lookup(name)
        if named is None:
            self.report(node, f"undeclared reference to '{node.name}' (in container '')")
            return ERROR if self._types_in_words else UNKNOWN
        self.references[node.id] = Reference(name)
        message = self._constructed(node, named)
        for index, ((field, value), place) in enumerate(zip(node.fields, node.field_ids, strict=True)):
            given = self.check(value)
            if index in node.optional:
                given = self._unwrapped(value, given)
            wanted = self._field_type(place, message.name if message is not ERROR else "", field) or ERROR
            if not self.bindings.assignable(wanted, given):
                text = f"expected type of field '{field}' is '{wanted}' but provided type is '{given}'"
                self._report_at(place, text)
        return WELL_KNOWN.get(message.name, message)

    def _constructed(self, node: MessageLiteral, named: Type) -> Type:
        if kind_of(named) == "error":
            return ERROR
        if named.name != "type":
            shown = named if self._types_in_words else f"{named}({as_message(named)})"
            self.report(node, f"'{shown}' is not a type")
            return ERROR
        message = named.parameters[0]
        if kind_of(message) != "object":
            self.report(node, f"'{message}' is not a message type")
            return ERROR
        return message

    def _comprehension(self, node: Comprehension) -> Type:
        ranged = self.bindings.substitute(self.check(node.range))
        initial = self.check(node.initial)
        variables = self._variable_types(node, ranged)
        if not self._types_in_words:
            self._excluded = frozenset()
        self._scopes.append((node.accumulator, initial))
        self._scopes.extend(variables)
        self._expect(node.condition, BOOL)
        self._expect(node.step, initial)
        del self._scopes[-len(variables) :]
        result = self.check(node.result)
        self._scopes.pop()
        return self.bindings.substitute(result)

    def _variable_types(self, node: Comprehension, ranged: Type) -> list[tuple[str, Type]]:
        item = self._variable_type(node.range, ranged)
        if not node.second:
            return [(node.variable, item)]
        if kind_of(ranged) == "list":
            return [(node.variable, INT), (node.second, item)]
        return [
            (node.variable, item),
            (node.second, ranged.parameters[1] if kind_of(ranged) == "map" else item),
        ]

    def _variable_type(self, node: Node, ranged: Type) -> Type:
        kind = kind_of(ranged)
        if kind == "list" or kind == "map":
            return ranged.parameters[0]
        if kind in ("dyn", "error", "parameter") and ranged != ANY:
            self.bindings.assignable(DYN, ranged)
            return DYN
        text = f"expression of type '{ranged}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self.report(node, text)
        return ERROR

    def _expect(self, node: Node, wanted: Type) -> None:
        found = self.check(node)
        if not self.bindings.assignable(wanted, found):
            self.report(node, f"expected type '{wanted}' but found '{found}'")

    def report(self, node: Node, message: str) -> None:
        self._report_at(node.id, message)

    def _report_at(self, place: int, message: str) -> None:
        if self._short_optional:
            message = message.replace("optional_type(", "optional(")
        self.problems.report(self._location(self._positions[place]), message)

    def _location(self, offset: int) -> Location:
        """The location of a node. As in cel-go's checker, the first column of a line counts as the end of the line
        before.
        """
        line, column = 1, offset
        for end in self._line_ends:
            if end >= offset:
                break
            line, column = line + 1, offset - end
        return Location(line, column)


def _instance(overload: Overload, bindings: Bindings) -> tuple[tuple[Type, ...], Type]:
    """Return the parameters and the result of an overload, with fresh type variables for this call."""
    if not overload.type_parameters:
        return overload.parameters, overload.result
    fresh = {name: bindings.fresh() for name in overload.type_parameters}
    return tuple(_renamed(of, fresh) for of in overload.parameters), _renamed(overload.result, fresh)


def _renamed(of: Type, names: dict[str, TypeParameter]) -> Type:
    if of.parameters:
        return Type(of.name, tuple(_renamed(inner, names) for inner in of.parameters))
    return names.get(of.name, of)


def qualified_name(node: Node | None) -> str:
    """Return a.b.c if the node consists only of names, otherwise ""."""
    names: list[str] = []
    inner = node
    while isinstance(inner, Select):
        if inner.test_only:
            return ""
        names.append(inner.field)
        inner = inner.operand
    if not isinstance(inner, Identifier):
        return ""
    names.append(inner.name.removeprefix("."))
    return ".".join(reversed(names))


def _line_ends(source: str) -> list[int]:
    ends: list[int] = []
    end = 0
    for line in source.split("\n"):
        end += len(line) + 1
        ends.append(end)
    return ends


_CONSTANTS: Final = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}

_CHECKS: Final[dict[type[Node], Callable[[_Checker, Any], Type]]] = {
    Constant: _Checker._constant,
    Identifier: _Checker._identifier,
    Select: _Checker._select,
    Call: _Checker._call,
    ListLiteral: _Checker._list,
    MapLiteral: _Checker._map,
    MessageLiteral: _Checker._message,
    Comprehension: _Checker._comprehension,
}
