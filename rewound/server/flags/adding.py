"""Adds flags to the parser, with their defaults in the help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from rewound.gateway.settings.settings import Settings
from rewound.server.flags.values import boolean, duration


def values_of(settings: Settings) -> dict[str, Any]:
    """The value of every setting, by the name of its flag with underscores."""
    found: dict[str, Any] = {}
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            found.update({inner.name: getattr(value, inner.name) for inner in fields(value)})
        else:
            found[one.name] = value
    return found


_DEFAULTS = values_of(Settings())


def _default(flag: str) -> Any:
    return _DEFAULTS.get(flag.removeprefix("--").replace("-", "_"))


def add(group: Any, flag: str, kind: Callable[[str], Any], shown: str, text: str) -> None:
    default = _default(flag)
    if default not in (None, "", ()) and "default" not in text:
        text += f" (default {written_duration(default) if kind is duration else default})"
    group.add_argument(flag, type=kind, metavar=shown, help=text)


def written_duration(seconds: float) -> str:
    """Format a duration as a flag takes it: 100ms, 30s, 5m, 24h."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def add_list(group: Any, flag: str, shown: str, text: str) -> None:
    """Add a flag that may occur more than once: values accumulate, and later ones take precedence."""
    group.add_argument(flag, action="append", metavar=shown, help=text)


def add_switch(group: Any, flag: str, text: str) -> None:
    if "default" not in text:
        text += f" (default {str(_default(flag)).lower()})"
    group.add_argument(flag, type=boolean, nargs="?", const=True, metavar="true|false", help=text)
