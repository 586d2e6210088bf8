"""Parses times as Go's time.Parse does, with its error texts, which clients know.

    parsing time "2020-13-01T00:00:00Z": month out of range
    parsing time "2020-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"

`times` calls this for what its pattern does not match. Like Go it accepts some forms that RFC 3339 does not: an hour of
one digit, a comma before the fraction.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from actors.quoting import LONGEST

_DIGITS: Final = frozenset("0123456789")
_FRACTION: Final = ".000000"
_ZONE: Final = "Z07:00"
_MOST_HOURS, _MOST_MINUTES = 24, 60  # of an offset, as Go accepts them


class NotATime(ValueError):
    """The text is no RFC 3339 time."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"parsing time {_quoted(text)}{why}")


def parse_time(text: str, layout: str) -> datetime:
    """Parse `text` in a Go layout, the reference time of January 2, 2006."""
    return _Parser(text, layout).parse()


class _Parser:
    def __init__(self, text: str, layout: str) -> None:
        self._text, self._layout = text, layout
        self._rest = text
        self._read: dict[str, int] = {"fraction": 0, "zone": 0}

    def parse(self) -> datetime:
        self._year()
        for before, element, name, low, high, two in _NUMBERS:
            self._literal(before)
            self._number(element, name, low, high, two)
        self._fraction()
        self._zone()
        if self._rest:
            raise NotATime(self._text, f": extra text: {_quoted(self._rest)}")
        return self._whole()

    def _whole(self) -> datetime:
        read = self._read
        year, month, day = read["year"], read["month"], read["day"]
        if not 1 <= day <= _days_of(year, month):
            raise self._out_of_range("day")
        zone = timezone(timedelta(minutes=read["zone"]))
        try:
            local = datetime(
                year, month, day, read["hour"], read["minute"], read["second"], read["fraction"], zone
            )
            return local.astimezone(UTC)
        except (ValueError, OverflowError):
            raise self._out_of_range("year") from None

    def _year(self) -> None:
        taken, rest = self._rest[:4], self._rest[4:]
        if len(taken) < 4 or taken[0] not in _DIGITS:
            raise self._wrong("2006")
        self._rest = rest
        if not _DIGITS.issuperset(taken):
            raise self._wrong("2006")
        self._read["year"] = int(taken)

    def _literal(self, sign: str) -> None:
        if not self._rest.startswith(sign):
            raise self._wrong(sign)
        self._rest = self._rest[len(sign) :]

    def _number(self, element: str, name: str, low: int, high: int, two: bool) -> None:
        rest = self._rest
        digits = len(rest[:2]) if _DIGITS.issuperset(rest[:2]) else int(rest[:1] in _DIGITS)
        if not digits or (two and digits < 2):
            raise self._wrong(element)
        value = self._read[name] = int(rest[:digits])
        self._rest = rest[digits:]
        if not low <= value <= high:
            raise self._out_of_range(name)

    def _fraction(self) -> None:
        """As many digits as the layout has; any number of them where it has none."""
        rest = self._rest
        length = len(_FRACTION) if _FRACTION in self._layout else 1 + _leading(rest[1:])
        taken = rest[:length]
        there = len(taken) == length and length > 1 and taken[0] in ".," and _DIGITS.issuperset(taken[1:])
        if there:
            self._read["fraction"] = int(taken[1:7].ljust(6, "0"))
            self._rest = rest[length:]
        elif _FRACTION in self._layout:
            raise self._wrong(_FRACTION)

    def _zone(self) -> None:
        rest = self._rest
        if rest.startswith("Z"):
            self._rest = rest[1:]
            return
        hours, minutes = rest[1:3], rest[4:6]
        if len(rest) < 6 or rest[3] != ":" or rest[0] not in "+-" or not _DIGITS.issuperset(hours + minutes):
            raise self._wrong(_ZONE)
        if int(hours) > _MOST_HOURS:
            raise self._out_of_range("time zone offset hour")
        if int(minutes) > _MOST_MINUTES:
            raise self._out_of_range("time zone offset minute")
        away = int(hours) * 60 + int(minutes)
        self._read["zone"] = away if rest[0] == "+" else -away
        self._rest = rest[6:]

    def _wrong(self, element: str) -> NotATime:
        why = f" as {_quoted(self._layout)}: cannot parse {_quoted(self._rest)} as {_quoted(element)}"
        return NotATime(self._text, why)

    def _out_of_range(self, name: str) -> NotATime:
        return NotATime(self._text, f": {name} out of range")


# (separator, layout element, name, minimum, maximum, two digits). The days of the month are checked at the end.
_NUMBERS: Final = (
    ("-", "01", "month", 1, 12, True),
    ("-", "02", "day", 0, 99, True),
    ("T", "15", "hour", 0, 23, False),
    (":", "04", "minute", 0, 59, True),
    (":", "05", "second", 0, 59, True),
)


def _days_of(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _leading(text: str) -> int:
    return len(text) - len(text.lstrip("0123456789"))


def _quoted(text: str) -> str:
    """Times have few characters: messages show the start of a longer text."""
    escaped = text[:LONGEST].replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if len(text) <= LONGEST else f'"{escaped}"... ({len(text)} characters)'
