"""How many bytes the results of functions take at most, where that can be much more than their arguments do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.cel.runtime.containers import is_list, list_items

_CHARACTER: Final = 4
_ITEM: Final = 80  # a text of one character in a list


def _replace(text: Any, old: Any, new: Any, count: Any = -1) -> int:
    if not all(isinstance(value, str) for value in (text, old, new)) or not isinstance(count, int):
        return 0
    found: int = text.count(old) if count < 0 else min(text.count(old), count)
    return _CHARACTER * (len(text) + found * max(0, len(new) - len(old)))


def _join(values: Any, separator: Any = "") -> int:
    if not is_list(values) or not isinstance(separator, str):
        return 0
    lengths = [len(item) + len(separator) for item in list_items(values) if isinstance(item, str)]
    return _CHARACTER * sum(lengths)


def _split(text: Any, separator: Any, limit: Any = -1) -> int:
    if not isinstance(text, str) or not isinstance(separator, str):
        return 0
    return _ITEM * (text.count(separator) + 1)


RESULT_SIZES: Final[dict[str, Callable[..., int]]] = {"replace": _replace, "join": _join, "split": _split}
