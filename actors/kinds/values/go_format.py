"""Formats values in error messages as Go does, because clients know and search for these texts.

Strings are quoted; lists of strings and label selectors look as in Go; other objects are JSON, because their Go type
names would not help. Labels have a function of their own, as a map looks like any other object.

A message shows the first `LONGEST` characters of a value: a body of three megabytes can break a thousand rules about
one list, and the message of each names the list. Formatting reads no more of a value than it shows, so that its cost
does not grow with the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import orjson

from actors.quoting import LONGEST, joined, quoted_list, quoted_start

_SELECTOR: Final = frozenset(("matchLabels", "matchExpressions"))

_DEEPEST: Final = 32  # levels of a value in a message
_FEW: Final = 16  # members


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
        return quoted_start(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in islice(value, LONGEST)):
        return _strings(value)
    if isinstance(value, dict) and _is_selector(value):
        return format_selector(value)
    if isinstance(value, (list, dict)):
        return joined(_json(value), "")
    return str(value)


def _is_selector(value: Mapping[str, Any]) -> bool:
    """Whether these are members of a label selector, and of no other kind of selector."""
    requirements = value.get("matchExpressions") or ()
    return (
        bool(value)
        and _SELECTOR.issuperset(value)
        and all("key" in one for one in islice(requirements, LONGEST))
    )


def format_labels(value: Mapping[str, str] | None) -> Formatted:
    if value is None:
        return Formatted("map[string]string(nil)")
    pairs = (f"{quoted_start(key)}:{quoted_start(value[key])}" for key in sorted(islice(value, LONGEST)))
    return Formatted(f"map[string]string{{{joined(pairs)}}}")


def format_selector(value: Mapping[str, Any]) -> Formatted:
    """Also for an empty selector, which `format_value` cannot tell from another empty object."""
    wanted = format_labels(value.get("matchLabels"))
    type_, requirements = "[]v1.LabelSelectorRequirement", value.get("matchExpressions")
    listed = f"{type_}(nil)"
    if requirements is not None:
        listed = f"{type_}{{{joined(_requirement(one) for one in requirements)}}}"
    return Formatted(f"v1.LabelSelector{{MatchLabels:{wanted}, MatchExpressions:{listed}}}")


def _requirement(value: Mapping[str, Any]) -> str:
    key, operator, values = (value["key"], value["operator"], value.get("values"))
    listed = "[]string(nil)" if values is None else _strings(values)
    return (
        f"v1.LabelSelectorRequirement{{Key:{quoted_start(key)}, Operator:{quoted_start(operator)}, "
        f"Values:{listed}}}"
    )


def _strings(values: Sequence[str]) -> str:
    return f"[]string{{{quoted_list(values)}}}"


def _json(value: Any, depth: int = _DEEPEST) -> Iterator[str]:
    """Compact JSON piece by piece: whoever needs only the start takes only the first pieces."""
    if isinstance(value, str) and len(value) > LONGEST:
        yield orjson.dumps(value[:LONGEST]).decode() + "..."
    elif not isinstance(value, (list, dict)) or _is_small(value):
        yield orjson.dumps(value).decode()
    elif not depth:
        yield "..."
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield "," if index else "["
            yield from _json(item, depth - 1)
        yield "]"
    else:
        for index, (name, member) in enumerate(value.items()):
            yield "," if index else "{"
            yield from _json(name)
            yield ":"
            yield from _json(member, depth - 1)
        yield "}"


def _is_small(value: list[Any] | dict[str, Any]) -> bool:
    """Whether it has few members, none of them large: it takes less time as one piece."""
    if len(value) > _FEW:
        return False
    members = [*value, *value.values()] if isinstance(value, dict) else value
    return not any(
        isinstance(one, (list, dict)) or (isinstance(one, str) and len(one) > LONGEST) for one in members
    )
