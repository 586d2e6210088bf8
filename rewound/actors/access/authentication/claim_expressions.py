"""CEL expressions of an authentication configuration, over the claims of a token or over the user that it names.

    compiler = Compiler(names, features)
    name = compiler.compile(CLAIMS, "claims.sub + '@example.com'")
    Expressions(features, username=name).of(claims).name()

Since 1.34, Kubernetes reads all numbers in claims as doubles, unescapes names (`claims.a__dot__b`), and a loop over
`claims` goes over the values of the claims, not over their names; before, claims are ordinary maps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from rewound.actors.access.token_json import BadClaims
from rewound.actors.cel.checker import check
from rewound.actors.cel.data import unescape
from rewound.actors.cel.language import language_of
from rewound.actors.cel.operations import same
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import Program, compile_program
from rewound.actors.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Node,
    Problems,
    Select,
)
from rewound.actors.cel.types import ANY, BOOL, STRING, Environment, MessageType, Type, list_of, map_of
from rewound.actors.cel.values import (
    MAX_INT,
    MIN_INT,
    CannotCompile,
    EvaluationError,
    EvaluationStopped,
    ListValue,
    MapLike,
    MapValue,
    copied,
    no_such_overload,
)
from rewound.actors.identity import User
from rewound.actors.names import Names
from rewound.actors.runtime.budget import Budget, OverBudget, ThreadBudget
from rewound.actors.versions.features import AUTHENTICATION_V1

CLAIMS: Final = "claims"
USER: Final = "user"
_TEXTS: Final = "expression must return a string or a list of strings"
_USER_TYPE: Final = MessageType(
    "kubernetes.UserInfo",
    {
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
)


class InvalidExpression(Exception):
    """The expression cannot be compiled; the text says why."""


class ProgramError(InvalidExpression):
    """Its types are right, but a constant in it is invalid."""


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    uses: frozenset[str]  # the claims that it selects by name
    program: Program
    makes_text_list: bool = False  # a list of Go's strings, not of CEL's

    def evaluate(self, variable: Any) -> Any:
        """Return the CEL value. Raises BadClaims, or NeedsThread if it takes too long for the event loop."""
        result = self.program.evaluate((variable,), ThreadBudget()).result
        if isinstance(result, EvaluationError | EvaluationStopped):
            raise BadClaims(f"expression '{self.text}' resulted in error: {result.message}")
        return result


class Compiler:
    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._language = language_of(names, features, stored=True)
        self._variables: dict[str, Type] = {CLAIMS: map_of(STRING, ANY), USER: Type(_USER_TYPE.name)}

    def compile(self, variable: str, text: str, *, condition: bool = False) -> Expression:
        """Compile an expression over one variable. A condition must be of type bool."""
        parsed = parse(text, self._language)
        if isinstance(parsed, Problems):
            raise InvalidExpression(f"compilation failed: {parsed}")
        variables = {variable: self._variables[variable]}
        messages = {_USER_TYPE.name: _USER_TYPE} if variable == USER else {}
        checked = check(parsed, Environment(variables, messages, self._language))
        if isinstance(checked, Problems):
            raise InvalidExpression(f"compilation failed: {checked}")
        if condition and checked.result != BOOL:
            raise InvalidExpression("must evaluate to bool")
        uses = frozenset(_selected(checked.expression.root, variable))
        try:
            program = compile_program(checked.expression, checked, (variable,))
        except CannotCompile as error:
            raise ProgramError(f"program instantiation failed: {error}") from None
        root = checked.expression.root
        return Expression(
            text, uses, program, isinstance(root, Call) and root.function in ("split", "findAll")
        )


def _selected(node: Node, variable: str) -> Iterator[str]:
    """The fields that an expression selects of a variable, with or without a question mark; not by an index."""
    remaining: list[Node] = [node]
    while remaining:
        match remaining.pop():
            case Select(operand=operand, field=field):
                if isinstance(operand, Identifier) and operand.name == variable:
                    yield field
                remaining.append(operand)
            case Call(function="_?._", arguments=(Identifier(name=name), Constant(value=str(field)))):
                if name == variable:
                    yield field
            case Call(arguments=arguments, target=target):
                remaining += [*arguments, *((target,) if target is not None else ())]
            case ListLiteral(items=items):
                remaining += items
            case MapLiteral(entries=entries):
                remaining += [part for entry in entries for part in entry if isinstance(part, Node)]
            case Comprehension() as loop:
                remaining += [loop.range, loop.initial, loop.condition, loop.step, loop.result]


Rule = tuple[Expression, str]  # a condition, and the message if it is false


@dataclass(frozen=True, slots=True, kw_only=True)
class Expressions:
    """All expressions of one issuer; None or empty where the configuration names a claim, or nothing."""

    features: frozenset[str]
    username: Expression | None = None
    groups: Expression | None = None
    uid: Expression | None = None
    extra: tuple[tuple[str, Expression], ...] = ()
    claim_rules: tuple[Rule, ...] = ()
    user_rules: tuple[Rule, ...] = ()

    def of(self, claims: Mapping[str, Any]) -> OfClaims:
        lazy = AUTHENTICATION_V1 in self.features
        return OfClaims(self, _LazyClaims(claims) if lazy else _plain(dict(claims)))

    def check_user(self, user: User) -> None:
        """Check the user that the claims name. Raises BadClaims."""
        if not self.user_rules:
            return
        fields = {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
        }
        value = _LazyUser(fields) if AUTHENTICATION_V1 in self.features else _plain(fields)
        _check("user info validation rule", self.user_rules, value)


@dataclass(frozen=True, slots=True)
class OfClaims:
    """The expressions, and the claims of one token as CEL has them. Everything raises BadClaims and NeedsThread."""

    expressions: Expressions
    claims: MapLike

    def check(self) -> None:
        _check("claim validation expression", self.expressions.claim_rules, self.claims)

    def name(self) -> str | None:
        name = self._text(self.expressions.username, "username")
        if name == "":
            raise BadClaims("empty username via CEL expression is not allowed")
        return name

    def uid(self) -> str | None:
        return self._text(self.expressions.uid, "uid")

    def groups(self) -> tuple[str, ...] | None:
        if self.expressions.groups is None:
            return None
        with _named("error evaluating group claim expression"):
            return _texts(self.expressions.groups, self.expressions.groups.evaluate(self.claims))

    def extra(self) -> dict[str, tuple[str, ...]]:
        found = [(key, one, one.evaluate(self.claims)) for key, one in self.expressions.extra]
        extra: dict[str, tuple[str, ...]] = {}
        for key, one, value in found:
            with _named(f"error evaluating extra claim expression: {one.text}"):
                if texts := _texts(one, value):
                    extra[key] = texts
        return extra

    def _text(self, expression: Expression | None, what: str) -> str | None:
        if expression is None:
            return None
        with _named(f"error evaluating {what} claim expression"):
            value = expression.evaluate(self.claims)
            if value.__class__ is not str:
                raise BadClaims(f"{what} claim expression must return a string")
        return str(value)


def _check(what: str, rules: tuple[Rule, ...], value: Any) -> None:
    """Evaluate all rules first: an error in a later one comes before an earlier one that is false."""
    with _named(f"error evaluating {what}"):
        results = [(rule, message, rule.evaluate(value)) for rule, message in rules]
        for rule, message, result in results:
            if result is not True:
                raise BadClaims(f"validation expression '{rule.text}' failed: {message}")


@contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except BadClaims as error:
        raise BadClaims(f"{what}: {error}") from None


class _Lazy(MapLike):
    """The claims or the user: a value is converted when it is first used."""

    __slots__ = ("_raw", "_values")
    go_name: Final = "*lazy.MapValue"

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw, self._values = raw, dict[str, Any]()

    def size(self) -> int:
        return len(self._raw)

    def find(self, key: Any) -> tuple[bool, Any]:
        if key.__class__ is not str:
            raise no_such_overload()
        name = unescape(key)
        if name is None or name not in self._raw:
            return False, None
        if name not in self._values:
            self._values[name] = _unescaping(self._raw[name])
        return True, self._values[name]

    def keys(self) -> Iterator[Any]:
        return (self.get(name) for name in self._raw)

    def equals(self, other: Any) -> bool:
        if not isinstance(other, _Lazy):
            raise no_such_overload()
        return self is other


class _LazyClaims(_Lazy):
    __slots__ = ()
    type_name = "kubernetes.claims"  # type: ignore[misc]


class _LazyUser(_Lazy):
    __slots__ = ()
    type_name = _USER_TYPE.name  # type: ignore[misc]


class _Unescaping(MapValue):
    """A map inside a claim."""

    __slots__ = ()

    def find(self, key: Any) -> tuple[bool, Any]:
        return super().find((unescape(key) or key) if key.__class__ is str else key)

    def equals(self, other: Any, budget: Budget) -> bool:
        plain = MapValue([])
        plain.entries = self.entries
        return same(plain, other, budget)


def _unescaping(raw: Any) -> Any:
    if raw.__class__ is dict:
        return _Unescaping([(key, _unescaping(value)) for key, value in raw.items()])
    if raw.__class__ is list:
        return [_unescaping(one) for one in raw]
    return float(raw) if raw.__class__ is int else raw


def _plain(raw: Any) -> Any:
    if raw.__class__ is dict:
        return MapValue([(key, _plain(value)) for key, value in raw.items()])
    if raw.__class__ is list:
        return [_plain(one) for one in raw]
    return float(raw) if raw.__class__ is int and not MIN_INT <= raw <= MAX_INT else raw


def _texts(expression: Expression, value: Any) -> tuple[str, ...]:
    """Return a string or a list of strings without the empty ones; null is none. Raises BadClaims.

    As in Kubernetes, a list that `split` or `findAll` makes is none of these.
    """
    if value is None:
        return ()
    if expression.makes_text_list:
        raise BadClaims(_TEXTS)
    try:
        found = copied(value, ThreadBudget()) if isinstance(value, list | ListValue) else [value]
    except OverBudget as error:
        raise BadClaims(f"expression '{expression.text}' resulted in error: {error}") from None
    if not all(one.__class__ is str for one in found):
        raise BadClaims(_TEXTS)
    return tuple(filter(None, found))
