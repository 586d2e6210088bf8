"""The schedule of a cron job: five fields of a crontab, a descriptor such as @daily, or @every and a duration.

    30 6 * * mon-fri     0/15 * 1,15 * ?     @hourly     @every 1h30m     CRON_TZ=UTC 0 0 * * *

This module checks the format only. Error texts are those of Kubernetes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from actors.kinds.values.times import duration_error
from actors.quoting import cut, quoted_start

DESCRIPTORS: Final = frozenset(
    ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"),
)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


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

_LONGEST_ZONE: Final = 255

_is_number = re.compile("[-+]?[0-9]+").fullmatch


class InvalidSchedule(ValueError):
    """The text is no schedule; the message says why."""


def check_schedule(text: str) -> None:
    """Raises InvalidSchedule."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, space, text = text.partition("=")[2].partition(" ")
        wrong = time_zone_error(zone) if space else "no schedule follows it"
        if wrong:
            raise InvalidSchedule(f"provided bad location {zone}: {wrong}")
        text = text.strip()
    if text.startswith("@"):
        _check_descriptor(text)
    else:
        _check_fields(text.split())


def _check_fields(fields: list[str]) -> None:
    if len(fields) != len(_FIELDS):
        raise InvalidSchedule(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _check_range(part, bounds)


def _check_descriptor(descriptor: str) -> None:
    if descriptor in DESCRIPTORS:
        return
    if not descriptor.startswith("@every "):
        raise InvalidSchedule(f"unrecognized descriptor: {descriptor}")
    wrong = duration_error(descriptor.removeprefix("@every "))
    if wrong:
        raise InvalidSchedule(f"failed to parse duration {descriptor}: {wrong}")


def _check_range(text: str, bounds: _Bounds) -> None:
    whole, *steps = text.split("/")
    first, *rest = whole.split("-")
    if first in ("*", "?"):
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


def time_zone_error(name: str) -> str:
    """Why a time zone is unknown; "" when it is known."""
    if len(name) > _LONGEST_ZONE:
        return f"unknown time zone {cut(name)}"
    return _time_zone_error(name)


@lru_cache(maxsize=1024)  # there are about 600 zones
def _time_zone_error(name: str) -> str:
    if name in ("", "UTC", "Local"):
        return ""
    if name.startswith(("/", "\\")) or ".." in name:
        return "time: invalid location name"
    import zoneinfo  # imported on first use: its import takes longer than that of this whole group

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
        return f"unknown time zone {name}"
    return ""
