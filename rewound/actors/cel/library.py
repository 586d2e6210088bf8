"""Functions of the libraries, with the types of their parameters, which an evaluation checks where they were dyn.

The string functions are those of cel-go's ext package; positions count code points. The list functions are those of
Kubernetes: isSorted, sum, min, max, indexOf, lastIndexOf. Regular expressions find all matches in a text as Go does.

Functions that walk over lists, or whose results can be much larger than their arguments, get the budget first.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from rewound.actors.cel import extensions, kubernetes, times, urls
from rewound.actors.cel.go_regexp import InvalidExpression, compile_re2, is_large, without_names
from rewound.actors.cel.mutations import ObjectValue
from rewound.actors.cel.operations import COMPARABLE, add, compare, list_contains, same
from rewound.actors.cel.values import (
    NONE,
    SPACE,
    ConcatList,
    Duration,
    EvaluationError,
    EvaluationStopped,
    MapValue,
    Optional,
    Timestamp,
    Uint,
    copied,
    is_list,
    list_items,
    list_size,
    no_such_overload,
    printed,
    type_name,
    walked,
)
from rewound.actors.runtime.budget import Budget
from rewound.actors.versions.features import CEL_LENIENT_INDEXES, CEL_NAMED_GROUPS, CEL_STRINGS

_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def text_index_of(text: str, searched: str, start: int = 0) -> int:
    if not searched:
        return start
    if not 0 <= start < len(text):
        raise _out_of_range(start)
    return text.find(searched, start)


def text_last_index_of(text: str, searched: str) -> int:
    return last_index_of_offset(text, searched, len(text) - 1) if searched else len(text)


def last_index_of_offset(text: str, searched: str, last: int) -> int:
    if not searched:
        return last
    if not 0 <= last < len(text):
        raise _out_of_range(last)
    return text.rfind(searched, 0, last + len(searched))


def _index_of_later(text: str, searched: str, start: int = 0) -> int:
    """Later versions find nothing after the end."""
    return -1 if searched and start >= len(text) else text_index_of(text, searched, start)


def _last_index_of_later(text: str, searched: str) -> int:
    if len(text.encode(errors="surrogatepass")) < len(searched.encode(errors="surrogatepass")):
        return -1
    return text_last_index_of(text, searched)


def _last_index_of_offset_later(text: str, searched: str, last: int) -> int:
    return -1 if searched and last >= len(text) else last_index_of_offset(text, searched, last)


_LENIENT: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    text_index_of: _index_of_later,
    text_last_index_of: _last_index_of_later,
    last_index_of_offset: _last_index_of_offset_later,
}


def lower_ascii(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_UPPER)


def trim(text: str) -> str:
    return text.strip(SPACE)


def replace(budget: Budget, text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old) if count < 0 else min(text.count(old), count)
    budget.take(_CHARACTER * (len(text) + found * max(0, len(new) - len(old))))
    return text.replace(old, new, max(count, -1))


def split(budget: Budget, text: str, separator: str, limit: int = -1) -> list[Any]:
    budget.take(_ITEM * (text.count(separator) + 1))
    if limit == 0:
        return []
    count = limit - 1 if limit > 0 else -1
    if separator:
        return list(text.split(separator, count))
    characters = list(text)
    if limit <= 0 or len(characters) <= limit:
        return characters
    return [*characters[: limit - 1], "".join(characters[limit - 1 :])]


def substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


_CHARACTER: Final = 4
_ITEM: Final = 80  # a list item of one character


def join(budget: Budget, values: Any, separator: str = "") -> str:
    """Join a list that the expression made. For a list of the object v1.25 fails, and not with a CEL error."""
    if hasattr(values, "raw"):
        raise EvaluationStopped(
            "internal error: interface conversion: interface {} is []interface {}, not []string"
        )
    if not is_list(values):
        raise EvaluationError("no such overload")
    return _joined(budget, values, separator, _not_text)


def join_any(budget: Budget, values: Any, separator: str = "") -> str:
    """Join any list, as later versions do."""
    return _joined(budget, values, separator, lambda item: f"join: invalid input: {printed(item)}")


def _joined(budget: Budget, values: Any, separator: str, wrong: Callable[[Any], str]) -> str:
    items: list[str] = []
    for item in walked(values, budget):
        if item.__class__ is not str:
            raise EvaluationError(wrong(item))
        budget.take(_CHARACTER * (len(item) + len(separator)))
        items.append(item)
    return separator.join(items)


def _not_text(item: Any) -> str:
    if isinstance(item, EvaluationError):
        return item.message
    names = {
        "int": "unsupported type conversion from 'int' to string",
        "bool": "type conversion error from bool to 'string'",
    }
    return names.get(type_name(item), f"type conversion error from '{type_name(item)}' to 'string'")


def _comparable(values: Any, budget: Budget) -> list[Any]:
    items = copied(values, budget)
    for item in items:
        if item.__class__ not in COMPARABLE:
            raise item if isinstance(item, EvaluationError) else no_such_overload()
    return items


def _order(left: Any, right: Any) -> int:
    """Return the order of two values, 0 also if they cannot be compared: NaN."""
    try:
        return compare(left, right, "")
    except EvaluationError:
        return 0


def is_sorted(budget: Budget, values: Any) -> bool:
    items = _comparable(values, budget)
    return all(_order(left, right) <= 0 for left, right in itertools.pairwise(walked(items, budget)))


def total(budget: Budget, values: Any, zero: Any) -> Any:
    result = zero
    for item in walked(values, budget):
        if isinstance(item, EvaluationError):
            raise item
        result = add(result, item, budget)
    return result


def smallest(budget: Budget, values: Any) -> Any:
    return _extreme(budget, values, "min", 1)


def largest(budget: Budget, values: Any) -> Any:
    return _extreme(budget, values, "max", -1)


def _extreme(budget: Budget, values: Any, name: str, replaced: int) -> Any:
    items = _comparable(values, budget)
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    result = items[0]
    for item in walked(items, budget):
        if _order(result, item) == replaced:
            result = item
    return result


def list_index_of(budget: Budget, values: Any, searched: Any) -> int:
    return _first(budget, enumerate(walked(values, budget)), searched)


def list_last_index_of(budget: Budget, values: Any, searched: Any) -> int:
    items = copied(values, budget)
    return _first(budget, zip(range(len(items) - 1, -1, -1), reversed(items), strict=True), searched)


def _first(budget: Budget, items: Iterable[tuple[int, Any]], searched: Any) -> int:
    for index, item in items:
        budget.visit(1)
        try:
            if not isinstance(item, EvaluationError) and same(item, searched, budget):
                return index
        except EvaluationError:
            continue
    return -1


def _has_all(budget: Budget, values: Any, searched: Any) -> bool:
    return all(_is_member(budget, item, values) for item in walked(searched, budget))


def _has_any(budget: Budget, values: Any, searched: Any) -> bool:
    for item in walked(values, budget):
        try:
            if _is_member(budget, item, searched):
                return True
        except EvaluationError:
            continue
    return False


def _is_member(budget: Budget, item: Any, values: Any) -> bool:
    if isinstance(item, EvaluationError):
        raise item
    return list_contains(values, item, budget)


def _are_equivalent(budget: Budget, left: Any, right: Any) -> bool:
    return _has_all(budget, left, right) and _has_all(budget, right, left)


def _set_overloads() -> dict[str, list[Overload]]:
    lists = (ListOf(None), ListOf(None))
    return {
        "sets.contains": [Overload("list_sets_contains_list", lists, _has_all, walks=True)],
        "sets.equivalent": [Overload("list_sets_equivalent_list", lists, _are_equivalent, walks=True)],
        "sets.intersects": [Overload("list_sets_intersects_list", lists, _has_any, walks=True)],
    }


_LONGEST_REMEMBERED: Final = 256  # characters
_MOST_REMEMBERED: Final = 64


class Expression:
    """A compiled regular expression."""

    __slots__ = ("_found", "_matches", "_pattern", "is_large")

    def __init__(self, pattern: Any) -> None:
        self._pattern = pattern
        self.is_large = is_large(pattern)
        self._matches: dict[str, bool] = {}
        self._found: dict[tuple[str, int], list[Any]] = {}

    def matches(self, text: str) -> bool:
        """Whether the expression matches anywhere in the text."""
        known = self._matches.get(text)
        if known is None:
            known = self._pattern.search(_encode(text)) is not None
            _cache(self._matches, text, text, known)
        return known

    def find(self, text: str) -> str:
        found = self.find_all(text, 1)
        return str(found[0]) if found else ""

    def find_all(self, text: str, limit: int = -1) -> list[Any]:
        """Return all matches that do not overlap, without an empty one right after another match."""
        known = self._found.get((text, limit))
        if known is None:
            known = self._search(text, limit)
            _cache(self._found, (text, limit), text, known)
        return known

    def _search(self, text: str, limit: int) -> list[Any]:
        data = _encode(text)
        results: list[Any] = []
        position, previous = 0, -1
        while len(results) != limit and position <= len(data):
            found = self._pattern.search(data, position)
            if not found:
                break
            start, end = found.span()
            if end > position or start != previous:
                results.append(found.group().decode())
            position = end if end > position else _next_character(data, position)
            previous = end
        return results


def _cache(known: dict[Any, Any], key: Any, text: str, result: Any) -> None:
    """Cache a result: loops of a rule search the same few texts again and again."""
    if len(text) <= _LONGEST_REMEMBERED:
        if len(known) >= _MOST_REMEMBERED:
            known.clear()
        known[key] = result


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _next_character(data: bytes, position: int) -> int:
    position += 1
    while position < len(data) and data[position] & 0xC0 == 0x80:
        position += 1
    return position


def expression_of_object(source: str, *, named: bool = False) -> Expression:
    """Return an expression that is not a constant of the rule. Recent short ones are cached, for loops."""
    compiled = _recent if len(source) <= _LONGEST_REMEMBERED else compile_expression
    return compiled(source, named=named)


def compile_expression(source: str, *, named: bool = False) -> Expression:
    """Compile an expression. Raises InvalidExpression if it is invalid or too large.

    `named`: it may have named groups without P.
    """
    return Expression(compile_re2(_encode(without_names(source) if named and "(?" in source else source)))


_recent: Final = functools.lru_cache(maxsize=16)(compile_expression)


_NOTHING: Final = object()


class ListOf:
    """A list whose first item has this class; evaluation checks no other item."""

    __slots__ = ("item",)

    def __init__(self, item: type | None) -> None:
        self.item = item

    def accepts(self, value: Any) -> bool:
        if not is_list(value):
            return False
        if self.item is None:
            return True
        first = next(iter(list_items(value)), _NOTHING)
        return first is _NOTHING or first.__class__ is self.item


Parameter = type | ListOf | None  # None accepts everything


class Overload:
    """`walks`: it may visit or make many values, and gets the budget first."""

    __slots__ = ("_parameters", "id", "run", "walks")

    def __init__(
        self, id: str, parameters: tuple[Parameter, ...], run: Callable[..., Any], *, walks: bool = False
    ) -> None:
        self.id, self._parameters, self.run, self.walks = id, parameters, run, walks

    def in_language(self, features: frozenset[str]) -> Overload:
        """Return the overload as a language with these features has it."""
        feature, earlier = kubernetes.EARLIER.get(self.id, ("", None))
        if earlier is None or feature in features:
            return self
        return Overload(self.id, self._parameters, earlier, walks=self.walks)

    def only_class(self) -> type | None:
        """The class of the argument, if there is one argument that is no list."""
        first = self._parameters[0]
        return first if len(self._parameters) == 1 and isinstance(first, type) else None

    def accepts(self, arguments: tuple[Any, ...]) -> bool:
        return len(arguments) == len(self._parameters) and all(map(_accepts, self._parameters, arguments))


def _accepts(parameter: Parameter, value: Any) -> bool:
    if parameter is None:
        return True
    return parameter.accepts(value) if isinstance(parameter, ListOf) else value.__class__ is parameter


def _find(text: str, source: str, *, named: bool = False) -> str:
    return _expression(source, named).find(text)


def _find_all(text: str, source: str, limit: int = -1, *, named: bool = False) -> list[Any]:
    return _expression(source, named).find_all(text, limit)


def _expression(source: str, named: bool) -> Expression:
    try:
        return expression_of_object(source, named=named)
    except InvalidExpression as problem:
        raise EvaluationError(f"Illegal regex: {problem}") from None


def _part(part: Callable[[times.Moment], int]) -> tuple[Callable[..., int], Callable[..., int]]:
    return (lambda value: part(times.civil(value, 0))), (lambda value, zone: part(times.in_zone(value, zone)))


def _time_overloads() -> dict[str, list[Overload]]:
    found = {}
    for function, name, part in (
        ("getFullYear", "year", lambda moment: moment.year),
        ("getMonth", "month", lambda moment: moment.month - 1),
        ("getDayOfYear", "day_of_year", lambda moment: moment.day_of_year),
        ("getDayOfMonth", "day_of_month", lambda moment: moment.day - 1),
        ("getDate", "day_of_month_1_based", lambda moment: moment.day),
        ("getDayOfWeek", "day_of_week", lambda moment: moment.day_of_week),
        ("getHours", "hours", lambda moment: moment.hour),
        ("getMinutes", "minutes", lambda moment: moment.minute),
        ("getSeconds", "seconds", lambda moment: moment.second),
        ("getMilliseconds", "milliseconds", lambda moment: moment.millisecond),
    ):
        plain, zoned = _part(part)
        found[function] = [
            Overload(f"timestamp_to_{name}", (Timestamp,), plain),
            Overload(f"timestamp_to_{name}_with_tz", (Timestamp, str), zoned),
        ]
    return found


def _truncated(unit: int) -> Callable[[Duration], int]:
    def divide(value: Duration) -> int:
        amount = abs(value.nanoseconds) // unit
        return -amount if value.nanoseconds < 0 else amount

    return divide


def _duration_overloads(found: dict[str, list[Overload]]) -> None:
    for function, name, unit in (
        ("getHours", "hours", 3600 * times.SECOND),
        ("getMinutes", "minutes", 60 * times.SECOND),
        ("getSeconds", "seconds", times.SECOND),
        ("getMilliseconds", "milliseconds", times.SECOND // 1000),
    ):
        found[function].insert(0, Overload(f"duration_to_{name}", (Duration,), _truncated(unit)))


_COMPARABLE: Final[dict[str, type]] = {
    "int": int,
    "uint": Uint,
    "double": float,
    "bool": bool,
    "duration": Duration,
    "timestamp": Timestamp,
    "string": str,
    "bytes": bytes,
}
_ZEROS: Final[dict[str, Any]] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}


def _sum(zero: Any) -> Callable[[Budget, Any], Any]:
    return lambda budget, values: total(budget, values, zero)


def _list_overloads() -> dict[str, list[Overload]]:
    kinds = [(name, (ListOf(kind),)) for name, kind in _COMPARABLE.items()]
    return {
        "isSorted": [
            Overload(f"list_{name}_is_sorted_bool", of, is_sorted, walks=True) for name, of in kinds
        ],
        "min": [Overload(f"list_{name}_min_{name}", of, smallest, walks=True) for name, of in kinds],
        "max": [Overload(f"list_{name}_max_{name}", of, largest, walks=True) for name, of in kinds],
        "sum": [
            Overload(f"list_{name}_sum_{name}", of, _sum(_ZEROS[name]), walks=True)
            for name, of in kinds
            if name in _ZEROS
        ],
        "indexOf": [Overload("list_a_index_of_int", (ListOf(None), None), list_index_of, walks=True)],
        "lastIndexOf": [
            Overload("list_a_last_index_of_int", (ListOf(None), None), list_last_index_of, walks=True)
        ],
    }


def _string_overloads(found: dict[str, list[Overload]]) -> None:
    for function, overload in (
        ("charAt", Overload("string_char_at_int", (str, int), char_at)),
        ("indexOf", Overload("string_index_of_string", (str, str), text_index_of)),
        ("indexOf", Overload("string_index_of_string_int", (str, str, int), text_index_of)),
        ("lastIndexOf", Overload("string_last_index_of_string", (str, str), text_last_index_of)),
        (
            "lastIndexOf",
            Overload("string_last_index_of_string_int", (str, str, int), last_index_of_offset),
        ),
        ("lowerAscii", Overload("string_lower_ascii", (str,), lower_ascii)),
        ("upperAscii", Overload("string_upper_ascii", (str,), upper_ascii)),
        ("trim", Overload("string_trim", (str,), trim)),
        ("replace", Overload("string_replace_string_string", (str, str, str), replace, walks=True)),
        ("replace", Overload("string_replace_string_string_int", (str, str, str, int), replace, walks=True)),
        ("split", Overload("string_split_string", (str, str), split, walks=True)),
        ("split", Overload("string_split_string_int", (str, str, int), split, walks=True)),
        ("substring", Overload("string_substring_int", (str, int), substring)),
        ("substring", Overload("string_substring_int_int", (str, int, int), substring_range)),
        ("join", Overload("list_join", (ListOf(str),), join, walks=True)),
        ("join", Overload("list_join_string", (ListOf(str), str), join, walks=True)),
        ("find", Overload("string_find_string", (str, str), _find)),
        ("findAll", Overload("string_find_all_string", (str, str), _find_all)),
        ("findAll", Overload("string_find_all_string_int", (str, str, int), _find_all)),
    ):
        found.setdefault(function, []).append(overload)


def _url_overloads() -> dict[str, list[Overload]]:
    """Return all URL functions but url() itself, see `bind_url`."""
    url = (urls.URL,)
    return {
        "isURL": [Overload("is_url_string", (str,), urls.is_url)],
        "getScheme": [Overload("url_get_scheme", url, lambda value: value.scheme)],
        "getHost": [Overload("url_get_host", url, lambda value: value.host)],
        "getHostname": [Overload("url_get_hostname", url, urls.URL.hostname)],
        "getPort": [Overload("url_get_port", url, urls.URL.port)],
        "getEscapedPath": [Overload("url_get_escaped_path", url, urls.URL.escaped_path)],
        "getQuery": [Overload("url_get_query", url, urls.URL.parameters)],
    }


_ZERO_TIME: Final = Timestamp(-62_135_596_800)  # of Go: the first second of the year 1


def _of_non_zero_value(value: Any) -> Optional:
    """Return nothing for null, false, zero and what is empty. Lists and maps of the object are never zero."""
    if isinstance(value, list | ConcatList):
        return Optional(value) if list_size(value) else NONE
    if value.__class__ is MapValue:
        return Optional(value) if value.size() else NONE
    if isinstance(value, ObjectValue):
        return Optional(value) if value.fields else NONE
    return NONE if value is None or value in (False, 0, "", b"", Duration(0), _ZERO_TIME) else Optional(value)


def _optional_overloads() -> dict[str, list[Overload]]:
    optional = (Optional,)
    return {
        "optional.of": [Overload("optional_of", (None,), Optional)],
        "optional.ofNonZeroValue": [Overload("optional_ofNonZeroValue", (None,), _of_non_zero_value)],
        "value": [Overload("optional_value", optional, lambda found: found.value)],
        "hasValue": [Overload("optional_hasValue", optional, lambda found: found.has_value)],
    }


def _all() -> dict[str, list[Overload]]:
    found = (
        _time_overloads() | _list_overloads() | _set_overloads() | _url_overloads() | _optional_overloads()
    )
    _duration_overloads(found)
    _string_overloads(found)
    for function, overload, parameters, run in kubernetes.FUNCTIONS:
        found.setdefault(function, []).append(Overload(overload, parameters, run))
    for walks, functions in ((False, extensions.FUNCTIONS), (True, extensions.WALKS)):
        for function, overload, kinds, run in functions:
            made = Overload(overload, tuple(map(_parameter, kinds)), run, walks=walks)
            found.setdefault(function, []).append(made)
    return found


def _parameter(kind: type | str | None) -> Parameter:
    if isinstance(kind, str):
        return ListOf(Optional if kind == extensions.OPTIONALS else None)
    return kind


FUNCTIONS: Final = _all()


def bind_url(type_name: str) -> Callable[[Any], Any]:
    """Return url(), which makes values with this type name."""
    make = partial(urls.to_url, type_name)

    def to_url(value: Any) -> Any:
        if value.__class__ is not str:
            raise no_such_overload("url", value)
        return make(value)

    return to_url


def _later(function: str, run: Callable[..., Any], features: frozenset[str]) -> Callable[..., Any]:
    """Return the function as later versions have it."""
    if function == "join":
        return join_any if CEL_STRINGS in features else run
    if CEL_LENIENT_INDEXES in features and run in _LENIENT:
        return _LENIENT[run]
    if CEL_NAMED_GROUPS in features and run in (_find, _find_all):
        return partial(run, named=True)
    return run


def bind(function: str, overload: str, features: frozenset[str]) -> tuple[Callable[..., Any], bool]:
    """Return a function that gets a budget and checks its arguments, and whether an evaluation chooses among several
    overloads.
    """
    declared = [found.in_language(features) for found in FUNCTIONS[function]]
    candidates = [found for found in declared if found.id == overload] or declared
    kind = candidates[0].only_class()
    if len(candidates) == 1 and kind is not None:
        return _guarded(function, kind, candidates[0]), False
    runs = [_later(function, candidate.run, features) for candidate in candidates]

    def call(budget: Budget, *arguments: Any) -> Any:
        for candidate, run in zip(candidates, runs, strict=True):
            if candidate.accepts(arguments):
                return run(budget, *arguments) if candidate.walks else run(*arguments)
        raise no_such_overload(function, *arguments)

    return call, len(candidates) > 1


def _guarded(function: str, kind: type, overload: Overload) -> Callable[[Budget, Any], Any]:
    run, walks = overload.run, overload.walks

    def call(budget: Budget, value: Any) -> Any:
        if value.__class__ is not kind:
            raise no_such_overload(function, value)
        return run(budget, value) if walks else run(value)

    return call
