"""How messages print values: as a server written in Go would, because that is what their readers know and search for.

Strings are quoted, lists of strings and label selectors are Go's, other objects are JSON: their names in Go say more
about that server than about the mistake. `labels` has its own function, as a map looks like any other object.
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


class Spelled(str):
    """Of a value: what a message prints, as it stands."""

    __slots__ = ()


def shown(value: Any) -> str:
    if isinstance(value, Spelled):
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
        return selector(value)
    if isinstance(value, (list, dict)):
        return orjson.dumps(value).decode()
    return str(value)


def _is_selector(value: Mapping[str, Any]) -> bool:
    """Whether these are members of a label selector, and of no other kind of selector."""
    requirements = value.get("matchExpressions") or ()
    return bool(value) and _SELECTOR.issuperset(value) and all("key" in one for one in requirements)


def labels(value: Mapping[str, str] | None) -> Spelled:
    if value is None:
        return Spelled("map[string]string(nil)")
    pairs = ", ".join(f"{quoted(key)}:{quoted(value[key])}" for key in sorted(value))
    return Spelled(f"map[string]string{{{pairs}}}")


def selector(value: Mapping[str, Any]) -> Spelled:
    """One that takes everything too, which `shown` could not tell from another empty object."""
    wanted = labels(value.get("matchLabels"))
    type_, requirements = "[]v1.LabelSelectorRequirement", value.get("matchExpressions")
    listed = f"{type_}(nil)"
    if requirements is not None:
        listed = f"{type_}{{{', '.join(_requirement(one) for one in requirements)}}}"
    return Spelled(f"v1.LabelSelector{{MatchLabels:{wanted}, MatchExpressions:{listed}}}")


def _requirement(value: Mapping[str, Any]) -> str:
    key, operator, values = quoted(value["key"]), quoted(value["operator"]), value.get("values")
    listed = "[]string(nil)" if values is None else _strings(values)
    return f"v1.LabelSelectorRequirement{{Key:{key}, Operator:{operator}, Values:{listed}}}"


def _strings(values: Sequence[str]) -> str:
    return "[]string{" + ", ".join(quoted(value) for value in values) + "}"


def quoted(text: str) -> str:
    """Double quotes around, letters of all scripts kept, everything unprintable escaped."""
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
