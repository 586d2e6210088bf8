"""The subset of jq that the selectors and delays of Stages use (docs/nodes.md lists it).

    query = compile_query('.status.conditions.[] | select( .type == "Ready" ) | .status')
    query(pod)    -> ["True"]

A query is compiled once to a function from a value to its results. If jq would fail, as for a field of a string, the
result is None: kwok treats that as "nothing there". Syntax outside this subset raises QueryError, and so does a query
that would take long or create large values for this object: it runs in the event loop (`StageBudget`). Brackets,
conditions and functions nest only a little, because every result passes through all filters around its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from rewound.actors.cel.go_regexp import InvalidExpression, compile_re2, may_take_long
from rewound.actors.cel.kwok import MOST_TEXT, QueryError
from rewound.actors.runtime.budget import OverBudget
from rewound.actors.stages.budget import StageBudget

Filter = Callable[[Any, StageBudget], Iterator[Any]]

_MOST_COST: Final = 3_000_000  # estimated nanoseconds
_DEEPEST: Final = 32  # filters inside each other
_STEP: Final = 1000
_HOP: Final = 300
_MOST_EXACT: Final = 1 << 63  # larger integers are floats, like all numbers of jq


class _Refused(Exception):
    """The query cannot be applied to this value."""


def query_budget() -> StageBudget:
    return StageBudget(_MOST_COST, _MOST_COST)


def compile_query(text: str) -> Callable[[Any, StageBudget], list[Any] | None]:
    """Compile a query, which returns the non-null results, or None if jq would fail. Both raise QueryError."""
    if len(text) > MOST_TEXT:
        raise QueryError(f"it has {len(text)} characters; at most {MOST_TEXT} are allowed")
    parser = _Parser(text)
    found = parser.pipeline()
    parser.end()

    def query(value: Any, budget: StageBudget) -> list[Any] | None:
        try:
            return [one for one in found(value, budget) if one is not None]
        except OverBudget as error:
            raise QueryError(f"{text[:200]!r}: {error}") from error
        except (_Refused, TypeError, ValueError, ArithmeticError, RecursionError):
            return None

    return query


_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"\\]|\\.)*")
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<field>\.[A-Za-z_][A-Za-z0-9_]*)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>\?//|//|==|!=|<=|>=|[.|,()\[\]?<>+\-*/%:])
    )""",
    re.VERBOSE,
)
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda left, right: left == right and _is_bool(left) == _is_bool(right),
    "!=": lambda left, right: not (left == right and _is_bool(left) == _is_bool(right)),
    "<": lambda left, right: _order(left) < _order(right),
    "<=": lambda left, right: _order(left) <= _order(right),
    ">": lambda left, right: _order(left) > _order(right),
    ">=": lambda left, right: _order(left) >= _order(right),
}
_KEYWORDS: Final = ("and", "or", "then", "else", "elif", "end")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = self._depth = 0

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self._unexpected()

    def pipeline(self) -> Filter:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise QueryError(f"{self._text[:200]!r}: it nests more than {_DEEPEST} levels")
        found = self._comma()
        while self._take("|"):
            found = _piped(found, self._comma())
        self._depth -= 1
        return found

    def _comma(self) -> Filter:
        filters = [self._alternative()]
        while self._take(","):
            filters.append(self._alternative())
        return filters[0] if len(filters) == 1 else _joined(filters)

    def _alternative(self) -> Filter:
        filters = [self._or()]
        while self._take("//"):
            filters.append(self._or())
        return filters[0] if len(filters) == 1 else _or_else(filters)

    def _or(self) -> Filter:
        found = self._and()
        while self._take("or"):
            found = _binary(found, self._and(), lambda left, right: _true(left) or _true(right))
        return found

    def _and(self) -> Filter:
        found = self._comparison()
        while self._take("and"):
            found = _binary(found, self._comparison(), lambda left, right: _true(left) and _true(right))
        return found

    def _comparison(self) -> Filter:
        found = self._sum()
        sign = self._peek()
        if sign in _COMPARISONS:
            self._at += 1
            return _binary(found, self._sum(), _COMPARISONS[sign])
        return found

    def _sum(self) -> Filter:
        found = self._product()
        while (sign := self._peek()) in ("+", "-"):
            self._at += 1
            found = _binary(found, self._product(), _add if sign == "+" else _subtract)
        return found

    def _product(self) -> Filter:
        found = self._term()
        while (sign := self._peek()) in ("*", "/", "%"):
            self._at += 1
            found = _binary(found, self._term(), _ARITHMETIC[sign])
        return found

    def _term(self) -> Filter:
        found = self._primary()
        while True:
            token = self._peek()
            if token == ".":
                self._at += 1
                if (text := self._peek()).startswith('"'):
                    self._at += 1
                    found = _piped(found, _field(json.loads(text)))
                elif text != "[":
                    raise self._unexpected()
            elif token.startswith(".") and len(token) > 1:
                self._at += 1
                found = _piped(found, _field(token[1:]))
            elif token == "[":
                found = self._brackets(found)
            elif token == "?":
                while self._take("?"):  # more of them change nothing
                    pass
                found = _optional(found)
            else:
                return found

    def _primary(self) -> Filter:
        token = self._next()
        if token == ".":
            if (text := self._peek()).startswith('"'):
                self._at += 1
                return _field(json.loads(text))
            return _identity
        if token.startswith("."):
            return _field(token[1:])
        if token.startswith('"'):
            return _constant(json.loads(token))
        if token[0].isdigit():
            return _constant(float(token) if "." in token else int(token))
        if token == "(":
            found = self.pipeline()
            self._expect(")")
            return found
        if token == "[":
            if self._take("]"):
                return _constant([])
            found = self.pipeline()
            self._expect("]")
            return lambda value, budget: iter([budget.sized_list(found(value, budget))])
        if token == "-":
            negative = True
            while self._take("-"):
                negative = not negative
            zero, number = _constant(0), self._term()
            found = _binary(zero, number, _subtract)
            return found if negative else _binary(zero, found, _subtract)
        if token == "if":
            return self._condition()
        return self._call(token)

    def _condition(self) -> Filter:
        condition = self.pipeline()
        self._expect("then")
        positive = self.pipeline()
        if self._take("elif"):
            self._depth += 1
            found = _either(condition, positive, self._condition())
            self._depth -= 1
            return found
        negative = self.pipeline() if self._take("else") else _identity
        self._expect("end")
        return _either(condition, positive, negative)

    def _call(self, name: str) -> Filter:
        if name in _CONSTANTS:
            return _constant(_CONSTANTS[name])
        arguments = []
        if self._take("("):
            arguments.append(self.pipeline())
            self._expect(")")
        made = _FUNCTIONS.get((name, len(arguments)))
        if made is None or name in _KEYWORDS:
            raise QueryError(f"{self._text!r}: {name!r} is not supported here")
        return made(*arguments)

    def _brackets(self, found: Filter) -> Filter:
        self._expect("[")
        if self._take("]"):
            return _piped(found, _iterate)
        index = self.pipeline()
        self._expect("]")
        return lambda value, budget: (
            _at(one, key) for one in found(value, budget) for key in _charged(index(value, budget), budget)
        )

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise QueryError(f"{self._text!r}: ends too early")
        self._at += 1
        return token

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._unexpected()

    def _unexpected(self) -> QueryError:
        found = self._peek()
        return QueryError(
            f"{self._text!r}: unexpected {found!r}" if found else f"{self._text!r}: ends too early"
        )


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    rest = text.rstrip()
    while at < len(rest):
        match = _TOKEN.match(rest, at)
        if match is None:
            raise QueryError(f"{text!r}: {rest[at:].strip()[:1]!r} is not supported here")
        found.append(match[0].strip())
        at = match.end()
    return found


def _charged(values: Iterator[Any], budget: StageBudget) -> Iterator[Any]:
    for one in values:
        budget.spend(_STEP)
        yield one


def _identity(value: Any, budget: StageBudget) -> Iterator[Any]:
    budget.spend(_STEP)
    yield value


def _constant(constant: Any) -> Filter:
    return lambda _, budget: _identity(constant, budget)


def _piped(left: Filter, right: Filter) -> Filter:
    return lambda value, budget: (
        two for one in _charged(left(value, budget), budget) for two in right(one, budget)
    )


def _joined(filters: list[Filter]) -> Filter:
    def joined(value: Any, budget: StageBudget) -> Iterator[Any]:
        for one in filters:
            budget.spend(_HOP)
            yield from one(value, budget)

    return joined


def _or_else(filters: list[Filter]) -> Filter:
    """The true results of the first filter that has some, else the results of the last."""

    def alternative(value: Any, budget: StageBudget) -> Iterator[Any]:
        for left in filters[:-1]:
            found = False
            budget.spend(_HOP)
            try:
                for one in left(value, budget):
                    budget.spend(_HOP)
                    if _true(one):
                        found = True
                        yield one
            except _Refused:
                pass
            if found:
                return
        yield from filters[-1](value, budget)

    return alternative


def _optional(found: Filter) -> Filter:
    def optional(value: Any, budget: StageBudget) -> Iterator[Any]:
        try:
            yield from found(value, budget)
        except _Refused:
            return

    return optional


def _either(condition: Filter, positive: Filter, negative: Filter) -> Filter:
    def either(value: Any, budget: StageBudget) -> Iterator[Any]:
        for one in _charged(condition(value, budget), budget):
            yield from (positive if _true(one) else negative)(value, budget)

    return either


def _binary(left: Filter, right: Filter, combine: Callable[[Any, Any], Any]) -> Filter:
    def binary(value: Any, budget: StageBudget) -> Iterator[Any]:
        for two in right(value, budget):
            for one in left(value, budget):
                budget.spend(_STEP + _LOOK * (budget.size(one) + budget.size(two)))
                yield _kept(combine(one, two), budget)

    return binary


def _kept(value: Any, budget: StageBudget) -> Any:
    """Check that a created value is not too large."""
    if isinstance(value, str):
        return budget.text(value)
    if isinstance(value, list):
        return budget.sized_list(value)
    if isinstance(value, dict):
        return budget.sized_map(value)
    if isinstance(value, int) and not -_MOST_EXACT <= value < _MOST_EXACT:
        return float(value)
    return value


def _field(name: str) -> Filter:
    return lambda value, budget: _identity(_at(value, name), budget)


def _iterate(value: Any, budget: StageBudget) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from _charged(iter(value.values()), budget)
    elif isinstance(value, list):
        yield from _charged(iter(value), budget)
    else:
        raise _Refused


def _at(value: Any, key: Any) -> Any:
    if value is None and (key is None or isinstance(key, (str, int))):
        return None
    if isinstance(value, dict) and isinstance(key, str):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int):
        return value[key] if -len(value) <= key < len(value) else None
    raise _Refused


def _true(value: Any) -> bool:
    return value is not None and value is not False


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _order(value: Any) -> tuple[int, Any]:
    """Sort order of jq: null, false, true, numbers, strings, lists, objects."""
    if value is None or isinstance(value, bool):
        return (0 if value is None else 2 if value else 1), 0
    if isinstance(value, (int, float)):
        return 3, value
    if isinstance(value, str):
        return 4, value
    if isinstance(value, list):
        return 5, [_order(one) for one in value]
    return 6, sorted((key, _order(one)) for key, one in value.items())


def _add(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return right if left is None else left
    if _number(left) and _number(right):
        return left + right
    if type(left) is type(right) and isinstance(left, (str, list)):
        return left + right
    if isinstance(left, dict) and isinstance(right, dict):
        return {**left, **right}
    raise _Refused


def _subtract(left: Any, right: Any) -> Any:
    if _number(left) and _number(right):
        return left - right
    raise _Refused


def _divide(left: Any, right: Any) -> Any:
    if _number(left) and _number(right) and right:
        whole = left / right
        return int(whole) if whole == int(whole) else whole
    raise _Refused


def _multiply(left: Any, right: Any) -> Any:
    if _number(left) and _number(right):
        return left * right
    raise _Refused


def _remainder(left: Any, right: Any) -> Any:
    if _number(left) and _number(right) and int(right):
        return int(abs(left) % abs(int(right))) * (1 if left >= 0 else -1)
    raise _Refused


_ARITHMETIC: Final = {"*": _multiply, "/": _divide, "%": _remainder}
_CONSTANTS: Final = {"null": None, "true": True, "false": False}


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _length(value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, (str, list, dict)):
        return len(value)
    if _number(value):
        return abs(value)
    raise _Refused


def _to_number(value: Any) -> Any:
    if _number(value):
        return value
    try:
        return json.loads(value) if isinstance(value, str) and value[:1] in "-0123456789" else _refuse()
    except ValueError:
        return _refuse()


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _refuse() -> Any:
    raise _Refused


def _type(value: Any) -> str:
    names = {str: "string", list: "array", dict: "object", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _keys(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return sorted(value)
    return list(range(len(value))) if isinstance(value, list) else _refuse()


def _has(value: Any, key: Any) -> bool:
    if isinstance(value, dict) and isinstance(key, str):
        return key in value
    if isinstance(value, list) and isinstance(key, int):
        return 0 <= key < len(value)
    raise _Refused


def _test(argument: Filter) -> Filter:
    """By RE2: the author of a Stage must not block the event loop with an expression."""

    def test(value: Any, budget: StageBudget) -> Iterator[Any]:
        for pattern in argument(value, budget):
            if not isinstance(value, str) or not isinstance(pattern, str):
                raise _Refused
            budget.spend(_STEP + (_COMPILE_LARGE if may_take_long(pattern) else _COMPILE) * len(pattern))
            try:
                compiled = _compiled(pattern)
            except InvalidExpression:
                raise _Refused from None
            budget.spend(_SEARCH * compiled.programsize * len(value))
            yield compiled.search(value) is not None

    return test


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:
    return compile_re2(pattern, large=False)


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, str) and isinstance(part, str):
        return part in value
    if isinstance(value, list) and isinstance(part, list):
        return all(any(_contains(one, two) for one in value) for two in part)
    if isinstance(value, dict) and isinstance(part, dict):
        return all(key in value and _contains(value[key], one) for key, one in part.items())
    return bool(value == part)


# Nanoseconds per character of a value that is compared, read or converted to text; per character of an expression,
# where repetitions and classes become many instructions; and per instruction and character that it searches.
_LOOK: Final = 10
_WRITE: Final = 40
_COMPILE: Final = 1000
_COMPILE_LARGE: Final = 20_000
_SEARCH: Final = 10


def _of_value(made: Callable[[Any], Any], weight: int = 0) -> Callable[[], Filter]:
    """`weight` is for a function that reads the inside of its value."""

    def of_value(value: Any, budget: StageBudget) -> Iterator[Any]:
        budget.spend(_STEP + (weight * budget.size(value) if weight else 0))
        yield _kept(made(value), budget)

    return lambda: of_value


def _of_argument(
    made: Callable[[Any, Any], Any], weight: int = 0, weight_of_argument: int = 0
) -> Callable[[Filter], Filter]:
    def of_argument(argument: Filter) -> Filter:
        def called(value: Any, budget: StageBudget) -> Iterator[Any]:
            for one in argument(value, budget):
                budget.spend(_STEP)
                if weight:
                    budget.spend(weight * budget.size(value) + weight_of_argument * budget.size(one))
                yield made(value, one)

        return called

    return of_argument


def _contains_all(argument: Filter) -> Filter:
    """Each part of a list may be compared with each of another."""

    def contains(value: Any, budget: StageBudget) -> Iterator[Any]:
        for one in argument(value, budget):
            parts = 1 if isinstance(one, str) else budget.size(one)
            budget.spend(_STEP + _LOOK * budget.size(value) * parts)
            yield _contains(value, one)

    return contains


def _select(condition: Filter) -> Filter:
    return lambda value, budget: (value for one in _charged(condition(value, budget), budget) if _true(one))


def _of_each(combine: Callable[[Iterator[Any]], Any]) -> Callable[[Filter], Filter]:
    """Combine the results of a filter for each member."""

    def of_each(found: Filter) -> Filter:
        def called(value: Any, budget: StageBudget) -> Iterator[Any]:
            members = _iterate(value, budget)
            yield _kept(combine(two for one in members for two in found(one, budget)), budget)

        return called

    return of_each


def _any(values: Iterator[Any]) -> bool:
    return any(map(_true, values))


def _all(values: Iterator[Any]) -> bool:
    return all(map(_true, values))


def _first(found: Filter) -> Filter:
    return lambda value, budget: islice(found(value, budget), 1)


_FUNCTIONS: Final[dict[tuple[str, int], Callable[..., Filter]]] = {
    ("select", 1): _select,
    ("map", 1): _of_each(list),
    ("any", 1): _of_each(_any),
    ("all", 1): _of_each(_all),
    ("any", 0): lambda: _of_each(_any)(_identity),
    ("all", 0): lambda: _of_each(_all)(_identity),
    ("first", 1): _first,
    ("empty", 0): lambda: lambda value, budget: iter(()),
    ("not", 0): _of_value(lambda value: not _true(value)),
    ("length", 0): _of_value(_length),
    ("keys", 0): _of_value(_keys, _LOOK),
    ("type", 0): _of_value(_type),
    ("tostring", 0): _of_value(_to_text, _WRITE),
    ("tonumber", 0): _of_value(_to_number, _LOOK),
    ("first", 0): _of_value(lambda value: _at(value, 0)),
    ("last", 0): _of_value(lambda value: _at(value, -1)),
    ("has", 1): _of_argument(_has),
    ("test", 1): _test,
    ("startswith", 1): _of_argument(
        lambda value, part: value.startswith(part) if isinstance(value, str) else _refuse(), 1, 1
    ),
    ("endswith", 1): _of_argument(
        lambda value, part: value.endswith(part) if isinstance(value, str) else _refuse(), 1, 1
    ),
    ("contains", 1): _contains_all,
}
