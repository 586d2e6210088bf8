"""Adds flags to the parser, and parses the types of their values."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from rewound.gateway.settings.settings import Settings
from rewound.server.flags.durations import duration as parse_duration


def _defaults() -> dict[str, Any]:
    """The default of every setting, by the name of its flag with underscores."""
    found: dict[str, Any] = {}
    settings = Settings()
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            found.update({inner.name: getattr(value, inner.name) for inner in fields(value)})
        else:
            found[one.name] = value
    return found


_DEFAULTS = _defaults()


def _default(flag: str) -> Any:
    return _DEFAULTS.get(flag.removeprefix("--").replace("-", "_"))


def add(group: Any, flag: str, kind: Callable[[str], Any], shown: str, text: str) -> None:
    default = _default(flag)
    if default not in (None, "", ()) and "default" not in text:
        text += f" (default {_written(default) if kind is duration else default})"
    group.add_argument(flag, type=kind, metavar=shown, help=text)


def _written(seconds: float) -> str:
    """Format a duration as a flag takes it: 100ms, 30s."""
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


def add_list(group: Any, flag: str, shown: str, text: str) -> None:
    """Add a flag that may occur more than once: values accumulate, and later ones take precedence."""
    group.add_argument(flag, action="append", metavar=shown, help=text)


def add_switch(group: Any, flag: str, text: str) -> None:
    if "default" not in text:
        text += f" (default {str(_default(flag)).lower()})"
    group.add_argument(flag, type=boolean, nargs="?", const=True, metavar="true|false", help=text)


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


def size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


_UNITS = {
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
    return int(float(number) * _UNITS[unit or ""])
