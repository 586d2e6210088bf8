"""Times as objects carry them: RFC 3339 in UTC, whole seconds or six digits of a second.

    seconds_text(1577934245_000006)  -> "2020-01-02T03:04:05Z"
    micros_text(1577934245_000006)   -> "2020-01-02T03:04:05.000006Z"

Clients may send any offset; what is stored is UTC, and the first moment of year 1 counts as no time at all.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from actors.kinds.values.spelled_times import spelled_moment

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_SECONDS: Final = "2006-01-02T15:04:05Z07:00"
_MICROS: Final = "2006-01-02T15:04:05.000000Z07:00"
_PARTS: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})([.,][0-9]+)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)


def seconds_text(micros: int) -> str:
    """`micros` are microseconds since 1970."""
    return _second_text(micros // 1_000_000)


@lru_cache(maxsize=64)  # all writes of one second say it the same way
def _second_text(second: int) -> str:
    return _shown(_EPOCH + timedelta(seconds=second), "seconds")


def micros_text(micros: int) -> str:
    return _shown(_EPOCH + timedelta(microseconds=micros), "microseconds")


def micros_of(text: str) -> int:
    """The moment of a canonical time, in microseconds since 1970."""
    return (_parse(text, _SECONDS) - _EPOCH) // timedelta(microseconds=1)


def canonical_seconds(text: str) -> str | None:
    """The same moment in UTC without a fraction; None for the first moment of year 1."""
    moment = _parse(text, _SECONDS)
    return None if moment == _FIRST else _shown(moment, "seconds")


def canonical_micros(text: str) -> str | None:
    """The same moment in UTC with its six digits, which must be there."""
    found = _PARTS.fullmatch(text)
    moment = _parse(text, _MICROS) if found and len(found[7] or "") == 7 else spelled_moment(text, _MICROS)
    return None if moment == _FIRST else _shown(moment, "microseconds")


def _shown(moment: datetime, precision: str) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def _parse(text: str, layout: str) -> datetime:
    """Most times are written as they should be; the others are read letter by letter, or told what is wrong."""
    found = _PARTS.fullmatch(text)
    if found is None:
        return spelled_moment(text, layout)
    year, month, day, hour, minute, second = (int(found[index]) for index in range(1, 7))
    try:
        zone = _offset(found[8])
        local = datetime(year, month, day, hour, minute, second, _microseconds(found[7]), zone)
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        return spelled_moment(text, layout)


def _microseconds(fraction: str | None) -> int:
    return int(fraction[1:7].ljust(6, "0")) if fraction else 0


def _offset(zone: str) -> timezone:
    if zone == "Z":
        return UTC
    away = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    return timezone(away if zone[0] == "+" else -away)
