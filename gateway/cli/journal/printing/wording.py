"""Formats changes, values and sizes for a line of a terminal."""

from __future__ import annotations

from actors.rewind.difference import Change, describe

SUMMARY_CHANGES = 2  # changes in a summary

# Follows from other changes, so a summary leaves it out.
_DERIVED = frozenset({"metadata.generation"})


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
