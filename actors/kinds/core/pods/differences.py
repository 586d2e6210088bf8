"""The differences between two values, for people: one line for the old value and one for the new."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import orjson

MAX_LINES: Final = 40  # enough for a message
LONGEST_VALUE: Final = 200


def differences(old: Any, new: Any, field: str) -> str:
    lines = list(islice(_lines(old, new, field), MAX_LINES + 1))
    if len(lines) > MAX_LINES:
        lines[-1] = "  ..."
    return "".join(f"{line}\n" for line in lines)


def _lines(old: Any, new: Any, field: str) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            yield from _lines(old.get(name), new.get(name), f"{field}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _lines(before, after, f"{field}[{index}]")
    else:
        if old is not None:
            yield f"- {field}: {_encoded(old)}"
        if new is not None:
            yield f"+ {field}: {_encoded(new)}"


def _encoded(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."
