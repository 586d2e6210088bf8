"""Checks and reads durations in Go's syntax: `1h30m`, `1.5s`, `-.5ms`, `0`.

Used for durations that clients send: the schedule of a cron job, the timeout in a query. Errors have Go's texts, which
clients know.
"""

from __future__ import annotations

import re
from typing import Final

from actors.quoting import quoted_start

UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST: Final = 2**63 / 1e9  # Go counts nanoseconds in 64 bits
_PART = re.compile(r"(?P<number>[0-9]++\.?[0-9]*+|\.[0-9]++)(?P<unit>[^0-9.]*+)")


def duration_error(text: str) -> str:
    """Why a text is not a duration; "" if it is one."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return ""
    at = 0
    while part := _PART.match(rest, at):
        if not part["unit"]:
            return f"time: missing unit in duration {quoted_start(text)}"
        if part["unit"] not in UNITS:
            return f"time: unknown unit {quoted_start(part['unit'])} in duration {quoted_start(text)}"
        at = part.end()
        if at == len(rest):
            return "" if duration_seconds(rest) < LONGEST else f"time: invalid duration {quoted_start(text)}"
    return f"time: invalid duration {quoted_start(text)}"


def duration_seconds(text: str) -> float:
    """The seconds of a text that is a duration."""
    seconds = sum(
        float(part["number"]) * UNITS[part["unit"]] for part in _PART.finditer(text) if part["unit"]
    )
    return -seconds if text.startswith("-") else seconds
