"""Writes YAML as kubectl users know it: block style, sorted keys, sequences indented like their key.

libyaml's emitter decides folding and indentation; this module chooses only the style of each scalar. A text that
would not read back the same as a plain scalar is double-quoted; one of several lines is a literal block. Large
documents are written in a worker thread.
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

from rewound.gateway.wire.yaml.scalars import needs_quotes, whole

_Emitter: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_MAPPING: Final = MappingStartEvent(None, None, True, flow_style=False)
_MAPPING_END: Final = MappingEndEvent()
_SEQUENCE: Final = SequenceStartEvent(None, None, True, flow_style=False)
_SEQUENCE_END: Final = SequenceEndEvent()
_PLAIN: Final = (True, True)

# About two milliseconds of writing, which other requests can wait for.
_THREAD_THRESHOLD: Final = 16 * 1024

# Readers turn each of these into a newline, so they must be escaped.
_needs_escape = re.compile("[\r\x85\u2028\u2029\ufeff]").search
# For keys without other characters, byte order is the natural order.
_unusual = re.compile("[^A-Za-z.:/ -]").search
_digits = re.compile("[0-9]*").match


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


async def from_json_in_thread(body: bytes) -> bytes:
    if len(body) <= _THREAD_THRESHOLD:
        return from_json(body)
    from rewound.gateway.wire.worker_threads import encode_in_thread  # here: commands write YAML without trio

    return await encode_in_thread(from_json, body)


def _write(value: Any, emit: Any) -> None:
    """Write depth first with an explicit stack, so that nested documents cannot exceed the recursion limit."""
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
    return ScalarEvent(None, None, _PLAIN, _plain_text(value))


def _style(text: str) -> str | None:
    if needs_quotes(text) or _needs_escape(text):
        return '"'
    return "|" if "\n" in text else None


def _plain_text(value: Any) -> str:
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
        keys.sort(key=_natural_order)
    return keys


def _compare(left: str, right: str) -> int:
    """Compare texts: digits by number (a2 before a10), other non-letters before letters, otherwise by code point."""
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
    """The sort key of texts that differ at a non-letter: the number there, however long it is."""
    start = index
    while start and text[start - 1] in "0123456789":
        start -= 1
    match = _digits(text, start)
    run = match[0] if match else ""
    significant = run.lstrip("0")
    return len(significant), significant, len(run), text[index]


_natural_order = cmp_to_key(_compare)
