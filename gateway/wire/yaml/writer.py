"""Values to YAML as kubectl users know it: block style, sorted keys, sequences level with their key.

Printed through libyaml's emitter, which decides folding and indentation; only the style of each scalar is
chosen here. What a bare word would not bring back unharmed is double-quoted, text of several lines is a
literal block. A large document is printed in a worker thread, so that others go on.
"""

from __future__ import annotations

import io
import re
from decimal import Decimal
from functools import cmp_to_key
from typing import Any, Final

import orjson
import yaml
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from gateway.wire.aside import tell_aside
from gateway.wire.yaml.scalars import needs_quotes, whole

_Emitter: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_MAPPING: Final = MappingStartEvent(None, None, True, flow_style=False)
_MAPPING_END: Final = MappingEndEvent()
_SEQUENCE: Final = SequenceStartEvent(None, None, True, flow_style=False)
_SEQUENCE_END: Final = SequenceEndEvent()
_PLAIN: Final = (True, True)

# About two milliseconds of printing: what other requests may be made to wait.
_OFF_LOOP: Final = 16 * 1024

# A reader turns every one of these into a newline, so they survive only as escapes.
_harmed = re.compile("[\r\x85\u2028\u2029\ufeff]").search
# Keys of these letters alone are in the wanted order when they are in byte order.
_unusual = re.compile("[^A-Za-z.:/ -]").search
_run = re.compile("[0-9]*").match


def dump(value: Any) -> bytes:
    stream = io.BytesIO()
    emitter = _Emitter(stream, allow_unicode=True)
    emit = emitter.emit
    try:
        emit(StreamStartEvent(encoding="utf-8"))
        emit(DocumentStartEvent(explicit=False))
        _write(value, emit)
        emit(DocumentEndEvent(explicit=False))
        emit(StreamEndEvent())
    finally:
        emitter.dispose()
    return stream.getvalue()


def from_json(body: bytes) -> bytes:
    return dump(orjson.loads(body))


async def from_json_off_loop(body: bytes) -> bytes:
    if len(body) <= _OFF_LOOP:
        return from_json(body)
    return await tell_aside(from_json, body)


def _write(value: Any, emit: Any) -> None:
    """Depth first with a stack of its own: the nesting of a document must not become the nesting of calls."""
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            emit(_MAPPING)
            pending.append(_MAPPING_END)
            for key in reversed(_sorted_keys(item)):
                pending.append(item[key])
                pending.append(key)
        elif isinstance(item, list):
            emit(_SEQUENCE)
            pending.append(_SEQUENCE_END)
            pending.extend(reversed(item))
        else:
            emit(item if isinstance(item, Event) else _scalar(item))


def _scalar(value: Any) -> ScalarEvent:
    if isinstance(value, str):
        return ScalarEvent(None, None, _PLAIN, value, style=_style(value))
    return ScalarEvent(None, None, _PLAIN, _bare(value))


def _style(text: str) -> str | None:
    if needs_quotes(text) or _harmed(text):
        return '"'
    return "|" if "\n" in text else None


def _bare(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        value = whole(value)
    return _float_text(value) if isinstance(value, float) else str(value)


def _float_text(value: float) -> str:
    """The shortest digits that read back as the same float; with an exponent from a million up."""
    shortest = repr(value)
    sign, digits, _ = Decimal(shortest).normalize().as_tuple()
    power = Decimal(shortest).adjusted()
    if -4 <= power < 6:
        return shortest
    first, *rest = map(str, digits)
    fraction = "." + "".join(rest) if rest else ""
    return f"{'-' if sign else ''}{first}{fraction}e{power:+03d}"


def _sorted_keys(mapping: dict[str, Any]) -> list[str]:
    keys = sorted(mapping)
    if len(keys) > 1 and _unusual("".join(keys)):
        keys.sort(key=_natural)
    return keys


def _compare(left: str, right: str) -> int:
    """Runs of digits by their number (a2 before a10), other signs before letters, else by code point."""
    index = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), -1)
    if index < 0:
        return len(left) - len(right)
    a, b = left[index], right[index]
    if a.isalpha() and b.isalpha():
        return ord(a) - ord(b)
    if a.isalpha() or b.isalpha():
        return 1 if a.isalpha() else -1
    return -1 if _weight(left, index) < _weight(right, index) else 1


def _weight(text: str, index: int) -> tuple[int, str, int, str]:
    """Orders texts that differ at a sign or a digit by the number there, however long it is."""
    start = index
    while start and text[start - 1] in "0123456789":
        start -= 1
    match = _run(text, start)
    run = match[0] if match else ""
    significant = run.lstrip("0")
    return len(significant), significant, len(run), text[index]


_natural = cmp_to_key(_compare)
