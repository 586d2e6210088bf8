"""Formats changes, values and sizes for a line of a terminal."""

from __future__ import annotations

from typing import Any

import orjson

from gateway.cli.journal.query.difference import ABSENT, Change

# A longer value is cut. `show` and JSON have whole values.
VALUE_WIDTH = 60
CONTEXT = 12  # characters shown before the first difference of two long values
SUMMARY_CHANGES = 2  # changes in a summary

# Follows from other changes, so a summary leaves it out.
_DERIVED = frozenset({"metadata.generation"})


def describe(change: Change, width: int | None = VALUE_WIDTH) -> str:
    """data.color: "blue" -> "red"; for added and removed fields only the one value."""
    if change.before is ABSENT or change.after is ABSENT:
        value = change.after if change.before is ABSENT else change.before
        return f"{change.path}: {_cut(_json(value), 0, width)}"
    before, after = _json(change.before), _json(change.after)
    start = 0
    if width is not None and max(len(before), len(after)) > width:
        start = max(0, _common_prefix(before, after) - CONTEXT)
    return f"{change.path}: {_cut(before, start, width)} -> {_cut(after, start, width)}"


def signed(change: Change) -> str:
    return describe(change) if change.sign == "~" else change.sign + describe(change)


def summarize(changes: list[Change]) -> str:
    """The first changes, contents before metadata, and how many more there are."""
    notable = [change for change in changes if change.path not in _DERIVED] or changes
    notable = sorted(notable, key=lambda change: change.path.startswith("metadata."))
    shown = "; ".join(signed(change) for change in notable[:SUMMARY_CHANGES])
    more = len(notable) - SUMMARY_CHANGES
    return f"{shown}; {more} more" if more > 0 else shown


def size(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    value, unit = count / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"


def rate(per_second: float) -> str:
    """Per second, minute, hour or day: the first in which it is at least 1."""
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3600)):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:.1f}/{unit}"
    return f"{per_second * 86400:.1f}/day" if per_second else "0/s"


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
