"""Schedules of cron jobs: their texts, and the moments at which they are due, as in robfig/cron v3.

    30 6 * * mon-fri     0/15 * 1,15 * ?     @hourly     @every 1h30m     CRON_TZ=Europe/Berlin 0 0 * * *

`parse_schedule` refuses a text with the words of robfig/cron, which clients know. A schedule finds its next moment in
local time of its zone, UTC unless the text or a CronJob names one: hours that a zone skips have no moment, and a
moment in an hour that it repeats is due twice. Moments are microseconds since 1970. Only a fixed interval (`@every`)
counts from a moment that the caller gives; the moments of all others depend on nothing but the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import msgspec

from rewound.actors.golang.quoting import cut, quoted_start
from rewound.actors.kinds.values.times import duration_error, duration_seconds
from rewound.actors.runtime.steps import Steps

SECOND: Final = 1_000_000
SEARCHED_YEARS: Final = 5  # years: a schedule that is not due within these never is, as on February 30
_NO_END: Final = 1 << 63  # microseconds
_LONGEST_ZONE: Final = 255
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS_OF_MONTHS: Final = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_PARTS: Final = re.compile("[^,]+")
_AT_ONCE: Final = 64  # parts, which take up to ten microseconds each
_is_number = re.compile("[-+]?[0-9]+").fullmatch


class InvalidSchedule(ValueError):
    """The text is not a schedule; the message says why."""


class Schedule(Protocol):
    def next(self, after: int) -> int | None:
        """Return the first moment later than this one, or None if there is none within five years."""

    def latest(self, after: int, until: int) -> int | None:
        """Return the last moment that is later than `after` and not later than `until`."""


class _Bounds(NamedTuple):
    low: int
    high: int
    names: dict[str, int]


_FIELDS: Final = (
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)


class _Field(NamedTuple):
    values: tuple[int, ...]
    every: bool  # written with a star, so that only the other of the two day fields counts

    def distance(self, value: int, end: int) -> int:
        """Return how far `value` is from the next allowed value, or from the end of the unit; 0 if it is allowed."""
        at = bisect_left(self.values, value)
        return (self.values[at] if at < len(self.values) else end) - value


class Interval(msgspec.Struct, frozen=True):
    """`@every`: a fixed time after the moment before, in whole seconds and at least one."""

    seconds: int

    def next(self, after: int) -> int:
        return after // SECOND * SECOND + self.seconds * SECOND

    def latest(self, after: int, until: int) -> int | None:
        first = self.next(after)
        passed = (until - first) // (self.seconds * SECOND)
        return None if passed < 0 else first + passed * self.seconds * SECOND


class Crontab(msgspec.Struct, frozen=True):
    """Five fields, in the local time of a zone."""

    minutes: _Field
    hours: _Field
    days: _Field
    months: _Field
    weekdays: _Field
    zone: tzinfo

    def next(self, after: int) -> int | None:
        return self._next(after, _NO_END)

    def _next(self, after: int, until: int) -> int | None:
        """The first moment later than `after` and not later than `until`; it searches no further."""
        if not self._has_dates:
            return None
        try:
            return _Search(self, after // SECOND + 1).run(until)
        except (ValueError, OverflowError):  # beyond the year 9999, which no object can have
            return None

    @property
    def _has_dates(self) -> bool:
        """Whether one of the months can have one of the days: February 30 would be looked for on every day."""
        longest = max(map(_DAYS_OF_MONTHS.__getitem__, self.months.values))
        return self.days.values[0] <= longest or not (self.days.every or self.weekdays.every)

    def latest(self, after: int, until: int) -> int | None:
        """Binary search, in shorter and shorter times: a schedule may have had any number of moments."""
        found = self._next(after, until)
        if found is None:
            return None
        end = until
        while end - found > SECOND:
            middle = (found + end) // 2
            later = self._next(middle, end)
            if later is not None:
                found = later
            else:
                end = middle
        return found

    def has_day(self, moment: datetime) -> bool:
        in_month = moment.day in self.days.values
        in_week = moment.isoweekday() % 7 in self.weekdays.values
        if self.days.every or self.weekdays.every:
            return in_month and in_week
        return in_month or in_week


class _Search:
    """Starts from a second and skips months, days, hours and minutes that the fields do not name.

    If a unit overflows into the next larger one, that one is checked again. Local midnight may not exist on a day on
    which clocks change; the search then goes to the hour nearest to it.
    """

    def __init__(self, fields: Crontab, second: int) -> None:
        self._fields = fields
        self._zone = fields.zone
        self._second = second
        self._limit = self._local().year + SEARCHED_YEARS
        self._cut = False  # whether the smaller units were set to zero

    def run(self, until: int) -> int | None:
        while self._second * SECOND <= until and self._local().year <= self._limit:
            if self._skip_months() and self._skip_days() and self._skip_hours() and self._skip_minutes():
                return self._second * SECOND if self._second * SECOND <= until else None
        return None

    def _local(self) -> datetime:
        return datetime.fromtimestamp(self._second, self._zone)

    def _skip_months(self) -> bool:
        while (now := self._local()).month not in self._fields.months.values:
            if not self._cut:
                self._cut = True
                self._set(datetime(now.year, now.month, 1))
                now = self._local()
            year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
            self._set(datetime(year, month, 1, now.hour, now.minute) + timedelta(days=now.day - 1))
            if self._local().month == 1:
                return False
        return True

    def _skip_days(self) -> bool:
        while not self._fields.has_day(now := self._local()):
            if not self._cut:
                self._cut = True
                self._set(datetime(now.year, now.month, now.day))
                now = self._local()
            self._set(now.replace(tzinfo=None) + timedelta(days=1))
            hour = self._local().hour
            self._second += (24 - hour if hour > 12 else -hour) * 3600
            if self._local().day == 1:
                return False
        return True

    def _skip_hours(self) -> bool:
        while distance := self._fields.hours.distance((now := self._local()).hour, 24):
            if not self._cut:
                self._cut = True
                self._set(datetime(now.year, now.month, now.day, now.hour))
            self._skip(distance, 3600)
            if self._local().hour == 0:
                return False
        return True

    def _skip_minutes(self) -> bool:
        while distance := self._fields.minutes.distance(self._local().minute, 60):
            if not self._cut:
                self._cut = True
                self._second -= self._second % 60
            self._skip(distance, 60)
            if self._local().minute == 0:
                return False
        if not self._second % 60:
            return True
        self._cut = True
        self._second += 60 - self._second % 60
        return False

    def _skip(self, count: int, unit: int) -> None:
        """Advance by this many units; by one, if clocks change on the way."""
        target = self._second + count * unit
        self._second = target if self._offset(target) == self._offset(self._second) else self._second + unit

    def _set(self, wall: datetime) -> None:
        """Go to a local time. If it does not exist, or exists twice, choose as Go does."""
        as_utc = int((wall - datetime(1970, 1, 1)).total_seconds())
        offset = self._offset(as_utc)
        self._second = as_utc - self._offset(as_utc - offset) if offset else as_utc

    def _offset(self, second: int) -> int:
        found = datetime.fromtimestamp(second, self._zone).utcoffset()
        return 0 if found is None else int(found.total_seconds())


def parse_schedule(text: str, zone: str = "") -> Schedule:
    """Parse a text; `zone` is the zone of one that names none itself. Raises InvalidSchedule if it is no schedule."""
    steps = schedule_steps(text, zone)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Schedule = end.value
            return found


def schedule_steps(text: str, zone: str = "") -> Steps[Schedule]:
    """Parse with pauses: a text may have hundreds of thousands of parts, and v1.25 does not limit it."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, space, text = text.partition("=")[2].partition(" ")
        wrong = time_zone_error(zone) if space else "no schedule follows it"
        if wrong:
            raise InvalidSchedule(f"provided bad location {zone}: {wrong}")
        text = text.strip()
    if text.startswith("@every "):
        return _interval(text)
    if text.startswith("@"):
        if text not in DESCRIPTORS:
            raise InvalidSchedule(f"unrecognized descriptor: {text}")
        text = DESCRIPTORS[text]
    minutes, hours, days, months, weekdays = yield from _fields(text.split())
    return Crontab(minutes, hours, days, months, weekdays, _time_zone(zone))


def time_zone_error(name: str) -> str:
    """Return why a time zone is unknown, or "" if it is known."""
    if len(name) > _LONGEST_ZONE:
        return f"unknown time zone {cut(name)}"
    return _time_zone_error(name)


def zone_text(micros: int, zone: str) -> str:
    """Format a moment in whole seconds, as the clocks of a known zone show it."""
    shown = datetime.fromtimestamp(micros // SECOND, _time_zone(zone)).isoformat()
    return shown.removesuffix("+00:00") + "Z" if shown.endswith("+00:00") else shown


def _interval(text: str) -> Interval:
    duration = text.removeprefix("@every ")
    wrong = duration_error(duration)
    if wrong:
        raise InvalidSchedule(f"failed to parse duration {text}: {wrong}")
    return Interval(max(int(duration_seconds(duration)), 1))


def _fields(texts: list[str]) -> Steps[list[_Field]]:
    if len(texts) != len(_FIELDS):
        raise InvalidSchedule(f"expected exactly 5 fields, found {len(texts)}: [{' '.join(texts)}]")
    found = []
    for text, bounds in zip(texts, _FIELDS, strict=True):
        found.append((yield from _field(text, bounds)))
    return found


def _field(text: str, bounds: _Bounds) -> Steps[_Field]:
    values: set[int] = set()
    every = False
    seen: set[str] = set()
    for number, match in enumerate(_PARTS.finditer(text), 1):
        if (part := match[0]) not in seen:
            seen.add(part)
            one = _range(part, bounds)
            values.update(one.values)
            every |= one.every
        if number % _AT_ONCE == 0:
            yield
    return _Field(tuple(sorted(values)), every)


def _range(text: str, bounds: _Bounds) -> _Field:
    whole, *steps = text.split("/")
    first, *rest = whole.split("-")
    every = first in ("*", "?")
    if every:
        low, high = bounds.low, bounds.high
    else:
        low = _number(first, bounds.names)
        if len(rest) > 1:
            raise InvalidSchedule(f"too many hyphens: {text}")
        high = _number(rest[0], bounds.names) if rest else low
    if len(steps) > 1:
        raise InvalidSchedule(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not rest:
        high = bounds.high
    _check_bounds(text, bounds, low, high, step)
    return _Field(tuple(range(low, high + 1, step)), every and step == 1)


def _check_bounds(text: str, bounds: _Bounds, low: int, high: int, step: int) -> None:
    if low < bounds.low:
        raise InvalidSchedule(f"beginning of range ({low}) below minimum ({bounds.low}): {text}")
    if high > bounds.high:
        raise InvalidSchedule(f"end of range ({high}) above maximum ({bounds.high}): {text}")
    if low > high:
        raise InvalidSchedule(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if not step:
        raise InvalidSchedule(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not _is_number(text) or len(text) > 18:
        why = "value out of range" if _is_number(text) else "invalid syntax"
        raise InvalidSchedule(
            f"failed to parse int from {text}: strconv.Atoi: parsing {quoted_start(text)}: {why}"
        )
    if int(text) < 0:
        raise InvalidSchedule(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)


@lru_cache(maxsize=1024)  # there are about 600 zones
def _time_zone_error(name: str) -> str:
    if name.startswith(("/", "\\")) or ".." in name:
        return "time: invalid location name"
    import zoneinfo

    try:
        _time_zone(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
        return f"unknown time zone {name}"
    return ""


def _time_zone(name: str) -> tzinfo:
    """Return a zone. `Local`, the zone of the server, is UTC: a schedule is due at the same moments
    wherever it runs.
    """
    if name in ("", "UTC", "Local"):
        return UTC
    import zoneinfo  # takes longer to import than all kinds of the batch group

    return zoneinfo.ZoneInfo(name)
