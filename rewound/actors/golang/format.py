"""Formats values in error messages as Go does, because clients know and search for these texts.

Messages about built-in kinds (`format_value`): strings are quoted; lists of strings and label selectors look as in Go;
other objects are JSON, because their Go type names would not help. Labels have a function of their own, as a map looks
like any other object. Messages about custom resources (`show`) have objects in Go's notation:

    show(1.0)             1
    show({"a": [None]})   map[string]interface {}{"a":[]interface {}{interface {}(nil)}}

A message shows the first `LONGEST` characters of a value: a body of three megabytes can break a thousand rules about
one list, and the message of each names the list. Formatting reads no more of a value than it shows, so that its cost
does not grow with the value.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

from rewound.actors.golang.quoting import LONGEST, joined, quoted_list, quoted_start

_SELECTOR: Final = frozenset(("matchLabels", "matchExpressions"))

_DEEPEST: Final = 32  # levels of a value that a message shows
_ESCAPED: Final = {ord(one): f"\\u{ord(one):04x}" for one in "<>&"}  # as Go does in strings of JSON
_FEW: Final = 16  # members of a value that a message shows
_SHORT: Final = 256  # characters of so many texts


class Formatted(str):
    """A text that messages print without quotes; `of` is the value, for versions that print it as JSON."""

    __slots__ = ("of",)
    of: Any

    def __new__(cls, text: str, of: Any = ...) -> Formatted:
        made = super().__new__(cls, text)
        made.of = of
        return made


class Repeated:
    """A value that many errors show: made and formatted when the first of them does, once in each wording.

    A rule that finds something wrong with each item of a list, and shows the whole list, makes one before its loop. A
    list without mistakes costs nothing; one with a thousand costs no more than one with a single mistake.
    """

    __slots__ = ("_json", "_make", "_text", "_value")

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make: Callable[[], Any] | None = make
        self._value: Any = None
        self._text: str | None = None
        self._json: str | None = None

    @property
    def value(self) -> Any:
        if self._make is not None:
            self._value, self._make = self._make(), None
        return self._value

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = format_value(self.value)
        return self._text

    @property
    def json(self) -> str:
        if self._json is None:
            self._json = as_json(self.value)
        return self._json


def has_json(value: Any) -> bool:
    """Whether messages of later versions print a value in another way than `format_value`."""
    if isinstance(value, Repeated):
        value = value.value
    if isinstance(value, Formatted):
        return value.of is None or isinstance(value.of, str | list | dict)
    return value is None or isinstance(value, list | dict)


def as_json(value: Any) -> str:
    """Return a value as messages of later versions print it, if `has_json` says that they differ."""
    if isinstance(value, Repeated):
        return value.json
    if isinstance(value, Formatted):
        value = value.of
        if isinstance(value, str):
            return quoted_start(value)
    return joined(_json(value), "").translate(_ESCAPED)


def format_value(value: Any) -> str:
    if isinstance(value, Repeated):
        return value.text
    if isinstance(value, Formatted):
        return str(value)
    if value is None:
        return '"null"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted_start(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in islice(value, LONGEST)):
        return _strings(value)
    if isinstance(value, dict) and _is_selector(value):
        return format_selector(value)
    if isinstance(value, (list, dict)):
        return joined(_json(value), "")
    return str(value)


def _is_selector(value: Mapping[str, Any]) -> bool:
    """Whether these are the members of a label selector, and of no other kind of selector."""
    requirements = value.get("matchExpressions") or ()
    return (
        bool(value)
        and _SELECTOR.issuperset(value)
        and all("key" in one for one in islice(requirements, LONGEST))
    )


def format_labels(value: Mapping[str, str] | None) -> Formatted:
    if value is None:
        return Formatted("map[string]string(nil)", None)
    pairs = (f"{quoted_start(key)}:{quoted_start(value[key])}" for key in sorted(islice(value, LONGEST)))
    return Formatted(f"map[string]string{{{joined(pairs)}}}", dict(value))


def format_selector(value: Mapping[str, Any]) -> Formatted:
    """Format a label selector, even an empty one, which `format_value` cannot tell from another empty object."""
    wanted = format_labels(value.get("matchLabels"))
    type_, requirements = "[]v1.LabelSelectorRequirement", value.get("matchExpressions")
    listed = f"{type_}(nil)"
    if requirements is not None:
        listed = f"{type_}{{{joined(_requirement(one) for one in requirements)}}}"
    return Formatted(f"v1.LabelSelector{{MatchLabels:{wanted}, MatchExpressions:{listed}}}", dict(value))


def _requirement(value: Mapping[str, Any]) -> str:
    key, operator, values = (value["key"], value["operator"], value.get("values"))
    listed = "[]string(nil)" if values is None else _strings(values)
    return (
        f"v1.LabelSelectorRequirement{{Key:{quoted_start(key)}, Operator:{quoted_start(operator)}, "
        f"Values:{listed}}}"
    )


def format_bytes(value: str) -> Formatted:
    """Format bytes that are given in base64."""
    if not value:
        return Formatted("[]byte(nil)", None)
    read = b64decode(value[:LONGEST])
    return Formatted(f"[]byte{{{joined(map('0x{:x}'.format, read))}}}", value)


def _strings(values: Sequence[str]) -> str:
    return f"[]string{{{quoted_list(values)}}}"


def _json(value: Any, depth: int = _DEEPEST) -> Iterator[str]:
    """Write compact JSON piece by piece, so that a caller that needs only the start takes only the first pieces."""
    if isinstance(value, str) and len(value) > LONGEST:
        yield orjson.dumps(value[:LONGEST]).decode() + "..."
    elif not isinstance(value, (list, dict)) or _is_small(value):
        yield orjson.dumps(value).decode()
    elif not depth:
        yield "..."
    elif isinstance(value, list):
        for start in range(0, len(value), _FEW):
            yield "," if start else "["
            yield from _json_items(value[start : start + _FEW], depth - 1)
        yield "]"
    else:
        for index, (name, member) in enumerate(value.items()):
            yield "," if index else "{"
            yield from _json(name)
            yield ":"
            yield from _json(member, depth - 1)
        yield "}"


def _json_items(items: list[Any], depth: int) -> Iterator[str]:
    """Write a few items of a list. Short texts are one piece: a thousand messages may show one list of them."""
    if set(map(type, items)) == {str} and sum(map(len, items)) <= _SHORT:
        yield orjson.dumps(items)[1:-1].decode()
        return
    for index, item in enumerate(items):
        if index:
            yield ","
        yield from _json(item, depth)


def _is_small(value: list[Any] | dict[str, Any]) -> bool:
    """Whether a value has few members, none of them large: it is then faster to write as one piece."""
    if len(value) > _FEW:
        return False
    members = [*value, *value.values()] if isinstance(value, dict) else value
    return not any(
        isinstance(one, (list, dict)) or (isinstance(one, str) and len(one) > LONGEST) for one in members
    )


_MOST_MEMBERS: Final = 256


def show(value: Any) -> Formatted:
    """Format a value for an error message: scalars as they are, objects and lists in Go's notation."""
    if value is None:
        return Formatted('"null"', None)
    if not isinstance(value, (dict, list)):
        return Formatted(_scalar(value))
    taken, room = [], LONGEST
    for part in _parts(value, _DEEPEST):
        if room <= 0:
            taken.append("...")
            break
        taken.append(part)
        room -= len(part)
    return Formatted("".join(taken), value)


def printed(value: Any, longest: int) -> str:
    """Return the start of a value as Go's %v prints it: map[a:[1 x] b:<nil>]."""
    taken, room = [], longest
    for part in _printed(value):
        taken.append(part)
        room -= len(part)
        if room <= 0:
            break
    return "".join(taken)[:longest]


def _printed(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield "map["
        for index, name in enumerate(sorted(value)):
            yield f" {name}:" if index else f"{name}:"
            yield from _printed(value[name])
        yield "]"
    elif isinstance(value, list):
        yield "["
        for index, item in enumerate(value):
            yield " " if index else ""
            yield from _printed(item)
        yield "]"
    elif value is None:
        yield "<nil>"
    elif isinstance(value, bool):
        yield "true" if value else "false"
    else:
        yield float_text(value) if isinstance(value, float) else str(value)


def float_text(value: float) -> str:
    """Return a number as Go's %v prints a float64: with an exponent from a million on."""
    if isinstance(value, int):
        value = float(value)
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    point = len(digits) + exponent  # position of the decimal point, counted from the first digit
    if value == 0:
        return "-0" if sign else "0"
    if -4 <= point - 1 < 6:
        return f"{Decimal(repr(value)).normalize():f}"
    text = "".join(map(str, digits))
    mantissa = f"{text[0]}.{text[1:]}" if len(text) > 1 else text
    return f"{'-' if sign else ''}{mantissa}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted_start(value)
    return float_text(value) if isinstance(value, float) else str(value)


def _parts(value: Any, depth: int) -> Iterator[str]:
    if value is None:
        yield "interface {}(nil)"
    elif not isinstance(value, (dict, list)):
        yield _scalar(value)
    elif not depth:
        yield "..."
    elif isinstance(value, list):
        yield "[]interface {}{"
        for index, item in enumerate(value):
            yield ", " if index else ""
            yield from _parts(item, depth - 1)
        yield "}"
    else:
        yield "map[string]interface {}{"
        for index, name in enumerate(sorted(islice(value, _MOST_MEMBERS))):
            yield (", " if index else "") + f"{quoted_start(name)}:"
            yield from _parts(value[name], depth - 1)
        yield "}"


class GoValue(NamedTuple):
    """A value of a Go type that JSON does not have, as messages show it."""

    printed: str
    source: str  # as Go writes it in source code
    type: str
