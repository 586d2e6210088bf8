"""Dates in HTTP header fields, such as `Sun, 06 Nov 1994 08:49:37 GMT`.

`email.utils.formatdate` returns the same, but importing it loads ten modules.
"""

from __future__ import annotations

import time
from typing import Final

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_date(seconds: float | None = None) -> bytes:
    """The date of a Unix time; without one, of the current time."""
    at = time.gmtime(seconds)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    clock = f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
    return f"{day}, {at.tm_mday:02} {month} {at.tm_year:04} {clock} GMT".encode()
