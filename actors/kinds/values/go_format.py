"""Formats values in error messages as Go does, because clients know and search for these texts.

Strings are quoted; lists of strings and label selectors look as in Go; other objects are JSON, because their Go type
names would not help. Labels have a function of their own, as a map looks like any other object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

_ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}
_SELECTOR: Final = frozenset(("matchLabels", "matchExpressions"))


class Formatted(str):
    """A text that messages print as it is."""

    __slots__ = ()


def format_value(value: Any) -> str:
    if isinstance(value, Formatted):
        return str(value)
    if value is None:
        return '"null"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return _strings(value)
    if isinstance(value, dict) and _is_selector(value):
        return format_selector(value)
    if isinstance(value, (list, dict)):
        return orjson.dumps(value).decode()
    return str(value)


def _is_selector(value: Mapping[str, Any]) -> bool:
    """Whether these are members of a label selector, and of no other kind of selector."""
    requirements = value.get("matchExpressions") or ()
    return bool(value) and _SELECTOR.issuperset(value) and all("key" in one for one in requirements)


def format_labels(value: Mapping[str, str] | None) -> Formatted:
    if value is None:
        return Formatted("map[string]string(nil)")
    pairs = ", ".join(f"{quoted(key)}:{quoted(value[key])}" for key in sorted(value))
    return Formatted(f"map[string]string{{{pairs}}}")


def format_selector(value: Mapping[str, Any]) -> Formatted:
    """Also for an empty selector, which `format_value` cannot tell from another empty object."""
    wanted = format_labels(value.get("matchLabels"))
    type_, requirements = "[]v1.LabelSelectorRequirement", value.get("matchExpressions")
    listed = f"{type_}(nil)"
    if requirements is not None:
        listed = f"{type_}{{{', '.join(_requirement(one) for one in requirements)}}}"
    return Formatted(f"v1.LabelSelector{{MatchLabels:{wanted}, MatchExpressions:{listed}}}")


def _requirement(value: Mapping[str, Any]) -> str:
    key, operator, values = quoted(value["key"]), quoted(value["operator"]), value.get("values")
    listed = "[]string(nil)" if values is None else _strings(values)
    return f"v1.LabelSelectorRequirement{{Key:{key}, Operator:{operator}, Values:{listed}}}"


def _strings(values: Sequence[str]) -> str:
    return "[]string{" + ", ".join(quoted(value) for value in values) + "}"


def quoted(text: str) -> str:
    """In double quotes, with unprintable characters escaped, like Go's %q."""
    return '"' + "".join(_escaped(letter) for letter in text) + '"'


def _escaped(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
