"""Changes as lines of text, for people."""

from __future__ import annotations

from typing import Any

import orjson

from actors.rewind.difference import ABSENT, Change

# A longer value is cut. Documents for programs have whole values.
VALUE_WIDTH = 60
CONTEXT = 12  # characters shown before the first difference of two long values


def describe(change: Change, width: int | None = VALUE_WIDTH) -> str:
    """data.color: "blue" -> "red"; for added and removed fields only the one value."""
    if change.before is ABSENT or change.after is ABSENT:
        value = change.after if change.before is ABSENT else change.before
        return f"{change.path}: {shortened(value, width)}"
    before, after = _json(change.before), _json(change.after)
    start = 0
    if width is not None and max(len(before), len(after)) > width:
        start = max(0, _common_prefix(before, after) - CONTEXT)
    return f"{change.path}: {_cut(before, start, width)} -> {_cut(after, start, width)}"


def shortened(value: Any, width: int | None = VALUE_WIDTH) -> str:
    """A value as JSON, cut at a width."""
    return _cut(_json(value), 0, width)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _common_prefix(one: str, other: str) -> int:
    """The length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _cut(text: str, start: int, width: int | None) -> str:
    if width is None:
        return text
    shown = text[start : start + width]
    return ("…" if start else "") + shown + ("…" if start + width < len(text) else "")


def escaped(text: str) -> str:
    """Escape control characters, which could move the cursor or change colours of a terminal."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in text
    )
