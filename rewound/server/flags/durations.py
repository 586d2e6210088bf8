"""Parses durations in the notation of Go flags: 5m, 1h30m, 500ms, 1.5h, 0."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d)", re.ASCII)
# A century: a larger number is a mistake, and would overflow clocks and dates.
_MAX_SECONDS = 100 * 365 * 86400.0


def duration(text: str) -> float:
    """Parse a duration into seconds. Raises ValueError that says what is wrong."""
    if text == "0":
        return 0.0
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration; write it like 90s, 5m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > _MAX_SECONDS:
        raise ValueError(f"{text!r} is more than a century; give less")
    return seconds
