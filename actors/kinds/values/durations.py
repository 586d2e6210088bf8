"""Checks durations in Go's syntax: `1h30m`, `1.5s`, `-.5ms`, `0`.

Used for durations that clients send: the schedule of a cron job, the timeout in a query. Only the syntax is
checked, with Go's error texts, which clients know.
"""

from __future__ import annotations

import re
from typing import Final

from actors.kinds.values.go_format import quoted_start

UNITS: Final = frozenset(("ns", "us", "µs", "μs", "ms", "s", "m", "h"))
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
            return ""
    return f"time: invalid duration {quoted_start(text)}"
