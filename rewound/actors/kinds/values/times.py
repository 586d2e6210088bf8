"""Times and durations as objects and queries carry them.

Times are RFC 3339 in UTC, whole seconds or six digits of a second:

    seconds_text(1577934245_000006)  -> "2020-01-02T03:04:05Z"
    micros_text(1577934245_000006)   -> "2020-01-02T03:04:05.000006Z"

Clients may send any offset; times are stored in UTC. The first moment of year 1 is Go's zero time and counts as
absent.

A time that does not match the usual pattern is parsed as Go's time.Parse does, with its error texts, which clients
know. Like Go, the parser accepts some forms that RFC 3339 does not: an hour of one digit, a comma before the
fraction.

    parsing time "2020-13-01T00:00:00Z": month out of range
    parsing time "2020-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"

Durations have Go's syntax (`1h30m`, `1.5s`, `-.5ms`, `0`) and Go's error texts: the schedule of a cron job, the
timeout in a query.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from rewound.actors.golang.quoting import LONGEST

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_SECONDS: Final = "2006-01-02T15:04:05Z07:00"
_MICROS: Final = "2006-01-02T15:04:05.000000Z07:00"
# Times that `datetime.fromisoformat` reads as Go does; it accepts many other forms, and later releases the hour 24.
_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}([.,][0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def seconds_text(micros: int) -> str:
    """Format microseconds since 1970 as whole seconds."""
    return _second_text(micros // 1_000_000)


@lru_cache(maxsize=64)  # all writes within a second need the same text
def _second_text(second: int) -> str:
    return _shown(_EPOCH + timedelta(seconds=second), "seconds")


def micros_text(micros: int) -> str:
    return _shown(_EPOCH + timedelta(microseconds=micros), "microseconds")


def wrapped_micros(seconds: int) -> int:
    """Convert seconds to microseconds, as Go adds them to a time: in 64-bit nanoseconds, which wrap beyond
    292 years.
    """
    return ((seconds * 1_000_000_000 + 2**63) % 2**64 - 2**63) // 1000


def micros_of(text: str) -> int:
    """Return the moment of a canonical time, in microseconds since 1970."""
    return (_parse(text, _SECONDS) - _EPOCH) // timedelta(microseconds=1)


def canonical_seconds(text: str) -> str | None:
    """Return the same moment in UTC without a fraction, or None for the first moment of year 1."""
    moment = _parse(text, _SECONDS)
    return None if moment == _FIRST else _shown(moment, "seconds")


def canonical_micros(text: str) -> str | None:
    """Return the same moment in UTC with six digits of a second, which the text must have."""
    found = _RFC_3339.fullmatch(text)
    moment = _parse(text, _MICROS) if found and len(found[1] or "") == 7 else parse_time(text, _MICROS)
    return None if moment == _FIRST else _shown(moment, "microseconds")


def _shown(moment: datetime, precision: str) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def _parse(text: str, layout: str) -> datetime:
    """Parse a time. Most match the pattern; the slow parser reads the others or reports what is wrong."""
    if _RFC_3339.fullmatch(text):
        try:
            return datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    return parse_time(text, layout)


# In nanoseconds, which Go counts in 64 bits.
UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3600_000_000_000,
}
_MOST: Final = 2**63
# Characters of a duration, which has a part for every two of them: Go has no limit.
LONGEST_DURATION: Final = 1000
_DURATION_PART = re.compile(r"(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?+(?P<unit>[^0-9.]*+)")


class NotADuration(ValueError):
    """The text is not a duration; the message is Go's."""


def duration_error(text: str) -> str:
    """Return why a text is not a duration, or "" if it is one."""
    try:
        nanoseconds_of(text)
    except NotADuration as error:
        return str(error)
    return ""


def duration_seconds(text: str) -> float:
    """Return the seconds of a duration."""
    return nanoseconds_of(text) / 1e9


def duration_text(nanoseconds: int) -> str:
    """Return a duration as Go prints it: 1h0m0s, 1.5s, 250ms."""
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if left == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if left < 1000 * UNITS[unit]:
            return f"{sign}{_in_units(left, UNITS[unit])}{unit}"
    hours, left = divmod(left, UNITS["h"])
    minutes, left = divmod(left, UNITS["m"])
    larger = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{larger}{_in_units(left, UNITS['s'])}s"


def _in_units(nanoseconds: int, unit: int) -> str:
    whole, rest = divmod(nanoseconds, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}}".rstrip("0") if rest else str(whole)


def nanoseconds_of(text: str) -> int:
    """Like Go's time.ParseDuration: exact except for the fraction of a number, which it multiplies as a float.

    Raises NotADuration, also for a text of more than LONGEST_DURATION characters.
    """
    if len(text) > LONGEST_DURATION:
        raise NotADuration(f"time: invalid duration: it has more than {LONGEST_DURATION} characters")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    total = at = 0
    while True:
        part = _DURATION_PART.match(rest, at)
        assert part is not None
        # No number with more digits fits, and Python refuses very long ones.
        whole = int(part["whole"].lstrip("0")[:20] or "0")
        if whole > _MOST or not (part["whole"] or part["fraction"]):
            raise NotADuration(f"time: invalid duration {_quoted(text)}")
        if not part["unit"]:
            raise NotADuration(f"time: missing unit in duration {_quoted(text)}")
        if part["unit"] not in UNITS:
            raise NotADuration(f"time: unknown unit {_quoted(part['unit'])} in duration {_quoted(text)}")
        total += _part_nanoseconds(whole, part["fraction"] or "", UNITS[part["unit"]])
        if total > _MOST:
            raise NotADuration(f"time: invalid duration {_quoted(text)}")
        at = part.end()
        if at == len(rest):
            break
    if text.startswith("-"):
        return -total
    if total == _MOST:
        raise NotADuration(f"time: invalid duration {_quoted(text)}")
    return total


def _part_nanoseconds(whole: int, fraction: str, unit: int) -> int:
    digits = fraction[:18]  # Go ignores digits that do not fit into 64 bits
    return whole * unit + int(int(digits or "0") * (unit / 10 ** len(digits)))


_DIGITS: Final = frozenset("0123456789")
_FRACTION: Final = ".000000"
_ZONE: Final = "Z07:00"
_MOST_HOURS, _MOST_MINUTES = 24, 60  # of an offset, as Go accepts them


class NotATime(ValueError):
    """The text is not an RFC 3339 time."""

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
        clock = (read["hour"], read["minute"], read["second"], read["fraction"])
        try:
            # Not a `timezone`, which supports no offset of 24 hours.
            return datetime(year, month, day, *clock, UTC) - timedelta(minutes=read["zone"])
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
        """Parse as many digits as the layout has; any number of them if it has none."""
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
    """Quote like Go's time package: every byte that is not printable ASCII in hexadecimal. Long texts are cut."""
    start = text[:LONGEST]
    escaped = start.replace("\\", "\\\\").replace('"', '\\"')
    if not (start.isascii() and start.isprintable()):
        escaped = "".join(_escaped(letter) for letter in escaped)
    return f'"{escaped}"' if len(text) <= LONGEST else f'"{escaped}"... ({len(text)} characters)'


def _escaped(letter: str) -> str:
    if " " <= letter < "\x80":
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode(errors="surrogatepass"))
