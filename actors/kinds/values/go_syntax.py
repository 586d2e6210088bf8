"""JSON values in Go's notation, as messages about custom resources show them.

    show(1.0)             1
    show({"a": [None]})   map[string]interface {}{"a":[]interface {}{interface {}(nil)}}

Messages about built-in kinds show objects as JSON (`go_format`). As there, no more of a value is read than is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from actors.kinds.values.go_format import Formatted
from actors.quoting import LONGEST, quoted_start

_DEEPEST: Final = 32
_FEW: Final = 256


def show(value: Any) -> Formatted:
    """A value in an error message: scalars as they are, objects and lists in Go's notation."""
    if value is None:
        return Formatted('"null"')
    if not isinstance(value, (dict, list)):
        return Formatted(_scalar(value))
    taken, room = [], LONGEST
    for part in _parts(value, _DEEPEST):
        if room <= 0:
            taken.append("...")
            break
        taken.append(part)
        room -= len(part)
    return Formatted("".join(taken))


def printed(value: Any, longest: int) -> str:
    """The first characters of a value as Go's %v prints it: map[a:[1 x] b:<nil>]."""
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
    """A number as Go's %v prints a float64: with an exponent from a million on."""
    if isinstance(value, int):
        value = float(value)
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    point = len(digits) + exponent  # where the decimal point is, counted from the first digit
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
        for index, name in enumerate(sorted(islice(value, _FEW))):
            yield (", " if index else "") + f"{quoted_start(name)}:"
            yield from _parts(value[name], depth - 1)
        yield "}"
