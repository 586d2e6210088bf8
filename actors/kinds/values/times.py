"""Times as objects carry them: RFC 3339 in UTC, whole seconds or six digits of a second.

    seconds_text(1577934245_000006)  -> "2020-01-02T03:04:05Z"
    micros_text(1577934245_000006)   -> "2020-01-02T03:04:05.000006Z"

Clients may send any offset; times are stored in UTC. The first moment of year 1 is Go's zero time and counts as absent.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from actors.kinds.values.time_parser import parse_time

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


@lru_cache(maxsize=64)  # all writes within a second need the same text
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
    moment = _parse(text, _MICROS) if found and len(found[7] or "") == 7 else parse_time(text, _MICROS)
    return None if moment == _FIRST else _shown(moment, "microseconds")


def _shown(moment: datetime, precision: str) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def _parse(text: str, layout: str) -> datetime:
    """Most times match the pattern; the slow parser reads the others or says what is wrong."""
    found = _PARTS.fullmatch(text)
    if found is None:
        return parse_time(text, layout)
    year, month, day, hour, minute, second = (int(found[index]) for index in range(1, 7))
    try:
        zone = _offset(found[8])
        local = datetime(year, month, day, hour, minute, second, _microseconds(found[7]), zone)
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        return parse_time(text, layout)


def _microseconds(fraction: str | None) -> int:
    return int(fraction[1:7].ljust(6, "0")) if fraction else 0


def _offset(zone: str) -> timezone:
    if zone == "Z":
        return UTC
    away = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    return timezone(away if zone[0] == "+" else -away)
