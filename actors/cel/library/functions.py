"""Functions of the libraries with the types of their parameters, which an evaluation checks where they were dyn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from actors.cel.library import lists, strings, urls
from actors.cel.library.expressions import Expression, expression_of_object
from actors.cel.library.go_regexp import InvalidExpression
from actors.cel.runtime import times
from actors.cel.runtime.containers import is_list, list_items
from actors.cel.values import Duration, EvaluationError, Timestamp, Uint, no_such_overload

_NOTHING: Final = object()


class ListOf:
    """A list whose first item has this class, as far as an evaluation checks."""

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
    __slots__ = ("_parameters", "id", "run")

    def __init__(self, id: str, parameters: tuple[Parameter, ...], run: Callable[..., Any]) -> None:
        self.id, self._parameters, self.run = id, parameters, run

    def only_class(self) -> type | None:
        """The class of the argument, if there is one argument and it is no list."""
        first = self._parameters[0]
        return first if len(self._parameters) == 1 and isinstance(first, type) else None

    def accepts(self, arguments: tuple[Any, ...]) -> bool:
        return len(arguments) == len(self._parameters) and all(map(_accepts, self._parameters, arguments))


def _accepts(parameter: Parameter, value: Any) -> bool:
    if parameter is None:
        return True
    return parameter.accepts(value) if isinstance(parameter, ListOf) else value.__class__ is parameter


def _find(text: str, source: str) -> str:
    return _expression(source).find(text)


def _find_all(text: str, source: str, limit: int = -1) -> list[Any]:
    return _expression(source).find_all(text, limit)


def _expression(source: str) -> Expression:
    try:
        return expression_of_object(source)
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


def _sum(zero: Any) -> Callable[[Any], Any]:
    return lambda values: lists.total(values, zero)


def _list_overloads() -> dict[str, list[Overload]]:
    kinds = [(name, (ListOf(kind),)) for name, kind in _COMPARABLE.items()]
    return {
        "isSorted": [Overload(f"list_{name}_is_sorted_bool", of, lists.is_sorted) for name, of in kinds],
        "min": [Overload(f"list_{name}_min_{name}", of, lists.smallest) for name, of in kinds],
        "max": [Overload(f"list_{name}_max_{name}", of, lists.largest) for name, of in kinds],
        "sum": [
            Overload(f"list_{name}_sum_{name}", of, _sum(_ZEROS[name]))
            for name, of in kinds
            if name in _ZEROS
        ],
        "indexOf": [Overload("list_a_index_of_int", (ListOf(None), None), lists.index_of)],
        "lastIndexOf": [Overload("list_a_last_index_of_int", (ListOf(None), None), lists.last_index_of)],
    }


def _string_overloads(found: dict[str, list[Overload]]) -> None:
    for function, overload in (
        ("charAt", Overload("string_char_at_int", (str, int), strings.char_at)),
        ("indexOf", Overload("string_index_of_string", (str, str), strings.index_of)),
        ("indexOf", Overload("string_index_of_string_int", (str, str, int), strings.index_of)),
        ("lastIndexOf", Overload("string_last_index_of_string", (str, str), strings.last_index_of)),
        (
            "lastIndexOf",
            Overload("string_last_index_of_string_int", (str, str, int), strings.last_index_of_offset),
        ),
        ("lowerAscii", Overload("string_lower_ascii", (str,), strings.lower_ascii)),
        ("upperAscii", Overload("string_upper_ascii", (str,), strings.upper_ascii)),
        ("trim", Overload("string_trim", (str,), strings.trim)),
        ("replace", Overload("string_replace_string_string", (str, str, str), strings.replace)),
        ("replace", Overload("string_replace_string_string_int", (str, str, str, int), strings.replace)),
        ("split", Overload("string_split_string", (str, str), strings.split)),
        ("split", Overload("string_split_string_int", (str, str, int), strings.split)),
        ("substring", Overload("string_substring_int", (str, int), strings.substring)),
        ("substring", Overload("string_substring_int_int", (str, int, int), strings.substring_range)),
        ("join", Overload("list_join", (ListOf(str),), strings.join)),
        ("join", Overload("list_join_string", (ListOf(str), str), strings.join)),
        ("find", Overload("string_find_string", (str, str), _find)),
        ("findAll", Overload("string_find_all_string", (str, str), _find_all)),
        ("findAll", Overload("string_find_all_string_int", (str, str, int), _find_all)),
    ):
        found.setdefault(function, []).append(overload)


def _url_overloads() -> dict[str, list[Overload]]:
    """All but url() itself, see `bind_url`."""
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


def _all() -> dict[str, list[Overload]]:
    found = _time_overloads() | _list_overloads() | _url_overloads()
    _duration_overloads(found)
    _string_overloads(found)
    return found


FUNCTIONS: Final = _all()


def bind_url(type_name: str) -> Callable[[Any], Any]:
    """url(), which makes values with this name of their type."""
    return _guarded("url", str, partial(urls.to_url, type_name))


def bind(function: str, overload: str) -> tuple[Callable[..., Any], bool]:
    """The function that checks its arguments, and whether it is one of several that an evaluation chooses from."""
    declared = FUNCTIONS[function]
    candidates = [found for found in declared if found.id == overload] or declared
    kind = candidates[0].only_class()
    if len(candidates) == 1 and kind is not None:
        return _guarded(function, kind, candidates[0].run), False

    def call(*arguments: Any) -> Any:
        for candidate in candidates:
            if candidate.accepts(arguments):
                return candidate.run(*arguments)
        raise no_such_overload(function, *arguments)

    return call, len(candidates) > 1


def _guarded(function: str, kind: type, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(value: Any) -> Any:
        if value.__class__ is not kind:
            raise no_such_overload(function, value)
        return run(value)

    return call
