"""The types of flag values: durations, sizes, ports and others. Commands and the server share them."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d)", re.ASCII)
# A century: a larger number is a mistake, and would overflow clocks and dates.
_MAX_SECONDS = 100 * 365 * 86400.0


def parse_duration(text: str) -> float:
    """Parse a duration as Go does (5m, 1h30m, 1.5h, 0) into seconds. Raises ValueError that says what is wrong."""
    if text == "0":
        return 0.0
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration; write it like 90s, 5m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > _MAX_SECONDS:
        raise ValueError(f"{text!r} is more than a century; give less")
    return seconds


_SIZE_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([kMGT]|[KMGT]i)?", re.ASCII)


def parse_size(text: str) -> int:
    """Parse a number of bytes. Raises ValueError that says what is wrong."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an amount of memory; write it like 512Mi, 1Gi or 2G")
    number, unit = match.groups()
    return int(float(number) * _SIZE_UNITS[unit or ""])


def argument_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A type for argparse, which reports the ValueError of `parse`."""

    def parse_argument(text: str) -> T:
        try:
            return parse(text)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from wrong

    return parse_argument


class Retention(NamedTuple):
    """The value of --journal-retention."""

    time: float | None  # seconds; None: forever
    kinds: tuple[
        tuple[str, float], ...
    ] = ()  # what only renews such objects goes after so many seconds; 0: with all


def parse_retention(text: str) -> Retention:
    """Parse 24h, or 24h,leases.coordination.k8s.io=1h, or only leases=1h. Raises ValueError that says what is wrong."""
    first, *others = text.split(",")
    time, kinds = (DAY, [first, *others]) if "=" in first else (parse_duration(first) or None, others)
    found: dict[str, float] = {}
    for one in kinds:
        kind, _, value = one.partition("=")
        if not _KIND.fullmatch(kind) or not value:
            raise ValueError(f"{one!r} is not KIND=TIME; write it like 24h,leases.coordination.k8s.io=1h")
        found[kind] = parse_duration(value)
    return Retention(time, tuple(found.items()))


DAY = 86400.0
_KIND = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)

duration = argument_type(parse_duration)
retention = argument_type(parse_retention)
size = argument_type(parse_size)


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0", "t", "f"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() in ("true", "1", "t")


def port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a port; give a number from 1 to 65535, or 0 for off"
        )
    return int(text)


def number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def rate(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return found


def folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a folder, or . for the current one")
    return Path(text)
