"""Parses a moment of the log: an offset, a time, or how long ago.

1042                     an offset
2024-05-01T12:03:00Z     a time; without a zone it is local, without a time of day it is midnight
12:03  12:03:30          the last time that the local clock showed this
10m  1h30m               so long ago
now                      the newest event
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from gateway.cli.durations import duration
from journal.keys import MAX_OFFSET
from journal.view import View

_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([Tt ].*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moment:
    """Either an offset or a time in microseconds since 1970; neither: the newest event."""

    offset: int | None = None
    time: int | None = None

    def version(self, view: View) -> int:
        """The newest offset that is not later."""
        if self.time is not None:
            return view.offset_at(self.time)
        return view.head if self.offset is None else self.offset

    def first(self, view: View) -> int:
        """The lowest offset that is not earlier."""
        if self.time is not None:
            return view.offset_at(self.time - 1) + 1
        return view.head if self.offset is None else self.offset


def parse_moment(text: str, now: datetime | None = None) -> Moment:
    """ValueError says what is wrong."""
    if text == "now":
        return Moment()
    if text.isascii() and text.isdigit():
        return Moment(offset=min(int(text[:20]), MAX_OFFSET))
    try:
        # Microseconds since 1970 fit a float exactly for the next two centuries.
        return Moment(time=round(_time(text, now or datetime.now().astimezone()).timestamp() * 1_000_000))
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is not a moment; write an offset (1042), a time (2024-05-01T12:03:00Z, 12:03) "
            "or how long ago (10m)"
        ) from None


def _time(text: str, now: datetime) -> datetime:
    if _CLOCK.fullmatch(text):
        return _last_showing(time.fromisoformat(text.zfill(8 if text.count(":") > 1 else 5)), now)
    if _DATE.fullmatch(text):
        moment = datetime.fromisoformat(text.upper())
        # Without a zone it is local time, with the UTC offset of that day.
        return moment if moment.tzinfo else moment.astimezone()
    return now - timedelta(seconds=duration(text))


def _last_showing(clock: time, now: datetime) -> datetime:
    today = datetime.combine(now.date(), clock).astimezone()
    return today if today <= now else datetime.combine(now.date() - timedelta(days=1), clock).astimezone()
