"""Strings with a format: date, date-time, duration and byte become timestamps, durations and bytes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final

from actors.cel.runtime import times
from actors.cel.values import BadData, Duration, Timestamp

_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_AMOUNT: Final = re.compile(r"([0-9]+)\s*([A-Za-zµ]+)")
_ALPHABET: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_DAY: Final = 24 * 3600 * times.SECOND
# The last name of a unit stands for all that begin with it: sec, seconds.
_UNITS: Final = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 1000),
    (("ms", "milli"), 1_000_000),
    (("s", "sec"), times.SECOND),
    (("m", "min"), 60 * times.SECOND),
    (("h", "hr", "hour"), 3600 * times.SECOND),
    (("d", "day"), _DAY),
    (("w", "wk", "week"), 7 * _DAY),
)


def read_duration(text: str) -> Duration:
    """A duration of Go, or amounts with longer names of units: 3 days."""
    parsed = times.parse_duration(text)
    if parsed is not None:
        return parsed
    found = [int(amount) * unit for amount, name in _AMOUNT.findall(text) for unit in _units(name.lower())]
    if not found:
        raise BadData(f"Invalid duration {text}: unable to parse {text} as duration")
    return Duration((sum(found) + 2**63) % 2**64 - 2**63)


def _units(name: str) -> list[int]:
    return [unit for names, unit in _UNITS if name in names or name.startswith(names[-1])]


def read_date(text: str) -> Timestamp:
    found = _DATE.fullmatch(text)
    if found is None or not times.valid_date(int(found[1]), int(found[2]), int(found[3])):
        raise BadData(
            f'Invalid date formatted string {text}: parsing time "{text}" as "2006-01-02": cannot parse'
        )
    return Timestamp(times.days_from_civil(int(found[1]), int(found[2]), int(found[3])) * 86400)


def read_date_time(text: str) -> Timestamp:
    """RFC 3339; without a zone it is UTC, and an empty text is 1970."""
    if not text:
        return Timestamp(0)
    parsed = times.parse_timestamp(text) or times.parse_timestamp(text + "Z")
    if parsed is None:
        raise BadData(
            f'Invalid date-time formatted string {text}: parsing time "{text}" as "2006-01-02T15:04:05": cannot parse'
        )
    return parsed


def read_bytes(text: str) -> bytes:
    """Base64 with the alphabet for URLs; + and / are refused, as Kubernetes does."""
    stripped = text.replace("\r", "").replace("\n", "")
    try:
        if "+" in text or "/" in text:
            raise binascii.Error
        return base64.b64decode(stripped.encode("ascii"), b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        position = _first_bad(text)
        raise BadData(
            f"Invalid byte formatted string {text}: illegal base64 data at input byte {position}"
        ) from None


def _first_bad(text: str) -> int:
    """The offset that Go reports: of the first byte outside the alphabet, or of the last group if it is too short."""
    groups = 0
    for position, byte in enumerate(text.encode(errors="surrogatepass")):
        if byte in b"\r\n":
            continue
        if byte in _ALPHABET:
            groups += 1
        elif byte == ord("="):
            return position if groups % 4 < 2 else len(text)
        else:
            return position
    return len(text) - groups % 4


FORMATS: Final[dict[str, Callable[[str], Any]]] = {
    "duration": read_duration,
    "date": read_date,
    "date-time": read_date_time,
    "byte": read_bytes,
}
