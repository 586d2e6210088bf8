"""Adds flags to the parser, with their defaults in the help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from rewound.gateway.settings.settings import Settings
from rewound.server.flags.values import boolean, duration


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
