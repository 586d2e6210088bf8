"""Durations and timestamps: Go's text forms, arithmetic without overflow, calendar parts in time zones."""

from __future__ import annotations

import functools
import re
from typing import Any, Final, NamedTuple

from rewound.actors.cel.values import MAX_INT, MIN_INT, Duration, EvaluationError, Timestamp, print_seconds
from rewound.actors.golang.quoting import quoted_start

SECOND: Final = 1_000_000_000
MIN_SECONDS: Final = -62135596800  # 0001-01-01T00:00:00Z
MAX_SECONDS: Final = 253402300799  # 9999-12-31T23:59:59Z
_DAY: Final = 86400
_LONGEST_REMEMBERED: Final = 64  # characters
_UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_TIMESTAMP: Final = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"T(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?"
    r"(?:Z|(?P<sign>[+-])(?P<hours>[0-9]{2}):(?P<minutes>[0-9]{2}))"
)
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Moment(NamedTuple):
    """The calendar parts of a timestamp in one time zone; months and days of the month count from 1."""

    year: int
    month: int
    day: int
    day_of_year: int  # from 0
    day_of_week: int  # Sunday is 0
    hour: int
    minute: int
    second: int
    millisecond: int


def parse_duration(text: str) -> Duration | None:
    """Parse what Go's ParseDuration accepts, such as 1h30m, -1.5s, 0, or return None."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    if not rest:
        return None
    total = position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]) or part[3] not in _UNITS:
            return None
        unit = _UNITS[part[3]]
        total += int(part[1] or 0) * unit + _fraction(part[2] or "", unit)
        position = part.end()
    total = -total if text[0] == "-" else total
    return Duration(total) if MIN_INT <= total <= MAX_INT else None


def _fraction(digits: str, unit: int) -> int:
    return int(digits) * unit // 10 ** len(digits) if digits else 0


def print_duration(value: Duration) -> str:
    seconds, rest = divmod(abs(value.nanoseconds), SECOND)
    amount = float(seconds) + rest / 1e9
    return print_seconds(-amount if value.nanoseconds < 0 else amount) + "s"


def parse_timestamp(text: str) -> Timestamp | None:
    """Parse RFC 3339, or return None. The year may be 0, which CEL timestamps cannot have."""
    return _recent_timestamp(text) if len(text) <= _LONGEST_REMEMBERED else _parse_timestamp(text)


@functools.lru_cache(maxsize=1024)
def _recent_timestamp(text: str) -> Timestamp | None:
    return _parse_timestamp(text)


def _parse_timestamp(text: str) -> Timestamp | None:
    found = _TIMESTAMP.fullmatch(text)
    if found is None or not text.isascii():
        return None
    year, month, day, hour, minute, second = (int(found[index]) for index in range(1, 7))
    offset = 0
    if found["sign"]:
        hours, minutes = int(found["hours"]), int(found["minutes"])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 3600 + minutes * 60) * (-1 if found["sign"] == "-" else 1)
    if not valid_date(year, month, day) or hour > 23 or minute > 59 or second > 59:
        return None
    seconds = days_from_civil(year, month, day) * _DAY + hour * 3600 + minute * 60 + second - offset
    return Timestamp(seconds, int((found["fraction"] or "0")[:9].ljust(9, "0")), offset)


def valid_date(year: int, month: int, day: int) -> bool:
    if not 1 <= month <= 12 or day < 1:
        return False
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return day <= _MONTH_DAYS[month - 1] + leap


def print_timestamp(value: Timestamp) -> str:
    """Print RFC 3339 with as many digits of the second as needed, in the zone of the original text."""
    moment = civil(value, value.offset)
    fraction = f".{value.nanoseconds:09d}".rstrip("0") if value.nanoseconds else ""
    zone = "Z"
    if value.offset:
        hours, minutes = divmod(abs(value.offset) // 60, 60)
        zone = f"{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
    return (
        f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}T"
        f"{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d}{fraction}{zone}"
    )


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the proleptic Gregorian calendar."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def civil(value: Timestamp, offset: int) -> Moment:
    return _civil(value.seconds + offset, value.nanoseconds // 1_000_000)


@functools.lru_cache(maxsize=1024)
def _civil(seconds: int, millisecond: int) -> Moment:
    days, of_day = divmod(seconds, _DAY)
    era, of_era = divmod(days + 719468, 146097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    return Moment(
        year,
        month,
        day,
        days - days_from_civil(year, 1, 1),
        (days + 4) % 7,
        of_day // 3600,
        of_day // 60 % 60,
        of_day % 60,
        millisecond,
    )


def in_zone(value: Timestamp, zone: str) -> Moment:
    """Return the parts in a zone: a name of the time zone database, or hours and minutes such as -03:30."""
    return civil(value, _offset(value, zone))


def _offset(value: Timestamp, zone: str) -> int:
    if zone in ("", "UTC"):
        return 0
    return _fixed_offset(zone) if ":" in zone else _named_offset(value, zone)


def _fixed_offset(zone: str) -> int:
    hours, _, minutes = zone.partition(":")
    minute = _number(minutes)
    offset = _number(hours) * 60
    return (offset - minute if zone[0] == "-" else offset + minute) * 60


def _number(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]+", text) and text.isascii():
        return int(text)
    raise EvaluationError(f"strconv.Atoi: parsing {quoted_start(text)}: invalid syntax")


def _named_offset(value: Timestamp, name: str) -> int:
    import zoneinfo
    from datetime import UTC, datetime

    if name == "Local":
        return 0
    if ".." in name or name[0] == "/" or "\\" in name:
        raise EvaluationError("time: invalid location name")
    try:
        zone = zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise EvaluationError(f"unknown time zone {name}") from None
    seconds = min(max(value.seconds, MIN_SECONDS + _DAY), MAX_SECONDS - _DAY)
    offset: Any = datetime.fromtimestamp(seconds, UTC).astimezone(zone).utcoffset()
    return int(offset.total_seconds())


def add_duration(value: Timestamp, nanoseconds: int) -> Timestamp:
    carried, rest = divmod(value.nanoseconds + nanoseconds, SECOND)
    seconds = value.seconds + carried
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(seconds, rest, value.offset)


def checked_duration(nanoseconds: int) -> Duration:
    if not MIN_INT <= nanoseconds <= MAX_INT:
        raise EvaluationError("integer overflow")
    return Duration(nanoseconds)


def difference(left: Timestamp, right: Timestamp) -> Duration:
    seconds = (left.seconds - right.seconds) * SECOND
    if not MIN_INT <= seconds <= MAX_INT:
        raise EvaluationError("integer overflow")
    return checked_duration(seconds + left.nanoseconds - right.nanoseconds)
