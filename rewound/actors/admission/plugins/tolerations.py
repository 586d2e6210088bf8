"""Comparison and merging of tolerations, shared by the plugins that add or restrict them."""

from __future__ import annotations

from collections.abc import Sequence

from rewound.actors.messages import Object


def merged(first: Sequence[Object], second: Sequence[Object]) -> list[Object]:
    """Both lists without redundant tolerations (covered by another); of equal ones the first stays."""
    every, kept = [*first, *second], list[Object]()
    for index, one in enumerate(every):
        if any(covers(other, one) for other in kept):
            continue
        if any(_key(other) != _key(one) and covers(other, one) for other in every[index + 1 :]):
            continue
        kept.append(one)
    return kept


def covers(wide: Object, narrow: Object) -> bool:
    """Whether `wide` tolerates every taint that `narrow` tolerates, and for at least as long."""
    if _key(wide) == _key(narrow):
        return True
    key, operator, value, effect, seconds = _key(wide)
    if key != narrow.get("key", "") and (key or operator != "Exists"):
        return False
    if effect not in ("", narrow.get("effect", "")):
        return False
    if effect == "NoExecute" and seconds is not None:
        limited = narrow.get("tolerationSeconds")
        if limited is None or limited > seconds:
            return False
    if operator in ("", "Equal"):
        return narrow.get("operator") == "Equal" and narrow.get("value", "") == value
    return operator == "Exists"


def _key(one: Object) -> tuple[str, str, str, str, int | None]:
    return (
        one.get("key", ""),
        one.get("operator", ""),
        one.get("value", ""),
        one.get("effect", ""),
        one.get("tolerationSeconds"),
    )
