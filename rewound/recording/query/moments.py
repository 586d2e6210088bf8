"""Parses moments of the journal as users write them, and formats them.

    1042                     an offset
    2024-05-01T12:03:00Z     a time; without a zone it is local, without a time of day it is midnight
    12:03  12:03:30          the last time that the local clock showed this
    10m  1h30m               so long ago
    now                      the newest event

Times are printed local and short for people, in RFC 3339 and UTC for programs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from rewound.client.errors import UsageError
from rewound.journal.keys import MAX_OFFSET
from rewound.server.flags.values import parse_duration

if TYPE_CHECKING:
    from rewound.journal.view import View

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

    @property
    def text(self) -> str:
        """The form that the API takes: a version or a time; empty for the newest event."""
        if self.time is not None:
            return rfc3339(self.time)
        return "" if self.offset is None else str(self.offset)

    @property
    def shown(self) -> str:
        """The form for people."""
        if self.time is not None:
            return exact(self.time)
        return "now" if self.offset is None else f"event {self.offset}"

    def first(self, view: View) -> int:
        """The lowest offset that is not earlier."""
        if self.time is not None:
            return view.offset_at(self.time - 1) + 1
        return view.head if self.offset is None else self.offset


def parse_moment(text: str, now: datetime | None = None) -> Moment:
    """Parse a moment. Raises ValueError that says what is wrong."""
    if text == "now":
        return Moment()
    if text.isascii() and text.isdigit():
        return Moment(offset=min(int(text[:20]), MAX_OFFSET))
    try:
        # Microseconds since 1970 fit a float exactly for the next two centuries.
        return Moment(time=round(_time(text, now or datetime.now().astimezone()).timestamp() * 1_000_000))
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is not a moment; write a version (1042), a time (2024-05-01T12:03:00Z, 12:03) "
            "or how long ago (10m)"
        ) from None


def _time(text: str, now: datetime) -> datetime:
    if _CLOCK.fullmatch(text):
        return _last_showing(time.fromisoformat(text.zfill(8 if text.count(":") > 1 else 5)), now)
    if _DATE.fullmatch(text):
        moment = datetime.fromisoformat(text.upper())
        # Without a zone it is local time, with the UTC offset of that day.
        return moment if moment.tzinfo else moment.astimezone()
    return now - timedelta(seconds=parse_duration(text))


def _last_showing(clock: time, now: datetime) -> datetime:
    today = datetime.combine(now.date(), clock).astimezone()
    return today if today <= now else datetime.combine(now.date() - timedelta(days=1), clock).astimezone()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(micros: int) -> datetime:
    # Not fromtimestamp: a float would round the last microsecond.
    return _EPOCH + timedelta(microseconds=micros)


def local(micros: int) -> str:
    return _moment(micros).astimezone().isoformat(" ", "milliseconds")[:23]


def clock(micros: int) -> str:
    """A time for a terminal, without the date when it is today."""
    text, today = local(micros), datetime.now().astimezone().date().isoformat()
    return text.removeprefix(f"{today} ")


def exact(micros: int) -> str:
    """A time with microseconds and UTC offset."""
    return _moment(micros).astimezone().isoformat(" ", "microseconds")


def rfc3339(micros: int) -> str:
    return _moment(micros).isoformat("T", "microseconds").replace("+00:00", "Z")


def micros_of(text: str) -> int:
    """Parse a time of `rfc3339` into microseconds since 1970."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def span(seconds: float) -> str:
    """Format a duration by its two largest units: 3d4h, 12m30s, 8.2s."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    left = int(seconds)
    parts: list[str] = []
    for name, length in units:
        number, left = divmod(left, length)
        if number or parts:
            parts.append(f"{number}{name}")
    return "".join(parts[:2])


def check_order(since: Moment | None, until: Moment | None) -> None:
    """Raises UsageError if --since is after --until, as far as that can be seen without a journal."""
    if since is None or until is None:
        return
    for one, other in ((since.time, until.time), (since.offset, until.offset)):
        if one is not None and other is not None and one > other:
            raise wrong_order(since, until)


def wrong_order(since: Moment, until: Moment) -> UsageError:
    return UsageError(f"--since ({since.shown}) is after --until ({until.shown}); exchange them")


def before_the_start(moment: Moment, floor: int, first: int) -> str:
    """`floor` is the oldest version that can be shown, 0 if nothing was removed; `first` the time of the next event."""
    given = exact(moment.time) if moment.time is not None else f"version {moment.offset}"
    if not first:
        return f"{given} is before the journal, which has no events"
    if not floor:
        return f"{given} is before the first event, of {exact(first)}; take a moment from then on"
    return f"{given} is older than the journal keeps; the oldest version is {floor} (shortly before {exact(first)})"


def after_the_end(moment: Moment, head: int) -> str:
    return f"version {moment.offset} is ahead of the journal, which is at {head}; take one up to that"


def in_the_future(moment: Moment) -> str:
    assert moment.time is not None
    return f"{exact(moment.time)} is in the future; take a time that has passed"


def after_the_last(moment: Moment, last: int) -> str:
    assert moment.time is not None
    return f"{exact(moment.time)} is after the last event, of {exact(last)}; take a moment up to then"
