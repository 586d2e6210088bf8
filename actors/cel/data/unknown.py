"""Values that a schema keeps without knowing them."""

from __future__ import annotations

from typing import Any, Final

from actors.cel.data.native import native


class Unknown:
    __slots__ = ("raw",)
    type_name: Final = "unknown"
    go_name: Final = "*cel.unknownPreserved"

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def equals(self, other: Any) -> bool:
        return deep_equal(self.raw, native(other))

    def native(self) -> Any:
        return self.raw


def deep_equal(left: Any, right: Any) -> bool:
    """Equal as data of JSON: 1 and 1.0 differ; an empty list or object equals null."""
    if left.__class__ is not right.__class__:
        return not left and not right and _empty(left) and _empty(right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(deep_equal(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(deep_equal, left, right))
    return bool(left == right)


def _empty(raw: Any) -> bool:
    return raw is None or isinstance(raw, dict | list)
