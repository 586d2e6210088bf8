"""Durations as Go spells them: `1h30m`, `1.5s`, `-.5ms`, `0`.

Asked by whoever reads one from a client: the schedule of a cron job, the time limit in a query. Only the form is
judged, with the texts that clients know; nobody here waits for as long as one says.
"""

from __future__ import annotations

import re
from typing import Final

from actors.kinds.values.spelling import quoted

UNITS: Final = frozenset(("ns", "us", "µs", "μs", "ms", "s", "m", "h"))
_PART = re.compile(r"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<unit>[^0-9.]*)")


def duration_fault(text: str) -> str:
    """Why a text is no duration; "" if it is one."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return ""
    while part := _PART.match(rest):
        if not part["unit"]:
            return f"time: missing unit in duration {quoted(text)}"
        if part["unit"] not in UNITS:
            return f"time: unknown unit {quoted(part['unit'])} in duration {quoted(text)}"
        rest = rest[part.end() :]
        if not rest:
            return ""
    return f"time: invalid duration {quoted(text)}"
