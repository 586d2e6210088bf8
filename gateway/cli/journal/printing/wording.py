"""Changes, values and sizes in words: for a line of a terminal, or for a list of them."""

from __future__ import annotations

from typing import Any

import orjson

from gateway.cli.journal.query.difference import ABSENT, Change

# Room for one value before it is cut. Whole values are in `show` and in JSON.
ROOM = 60
CONTEXT = 12  # of what is the same, in front of where two long values part
SUMMED_UP = 2  # changes in one line

# Follows from other changes, so a line has better things to say.
_DERIVED = frozenset({"metadata.generation"})


def told(change: Change, room: int | None = ROOM) -> str:
    """data.color: "blue" -> "red"; the sign says the rest of what was added or removed."""
    if change.before is ABSENT or change.after is ABSENT:
        value = change.after if change.before is ABSENT else change.before
        return f"{change.path}: {_cut(_json(value), 0, room)}"
    before, after = _json(change.before), _json(change.after)
    start = 0
    if room is not None and max(len(before), len(after)) > room:
        start = max(0, _parting(before, after) - CONTEXT)
    return f"{change.path}: {_cut(before, start, room)} -> {_cut(after, start, room)}"


def signed(change: Change) -> str:
    return told(change) if change.sign == "~" else change.sign + told(change)


def summed_up(changes: list[Change]) -> str:
    """The first of them, contents before metadata, and how many more there are."""
    telling = [change for change in changes if change.path not in _DERIVED] or changes
    telling = sorted(telling, key=lambda change: change.path.startswith("metadata."))
    shown = "; ".join(signed(change) for change in telling[:SUMMED_UP])
    more = len(telling) - SUMMED_UP
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


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _parting(one: str, other: str) -> int:
    """How many characters are the same at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _cut(text: str, start: int, room: int | None) -> str:
    if room is None:
        return text
    shown = text[start : start + room]
    return ("…" if start else "") + shown + ("…" if start + room < len(text) else "")
