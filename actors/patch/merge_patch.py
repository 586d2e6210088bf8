"""RFC 7396 merge patch: maps are merged, null deletes, everything else replaces.

Null members of maps inside a list are dropped, as Kubernetes does, where RFC 7396 would keep them; as in Kubernetes, a
list that takes the place of a map keeps them. No recursion, because the client chooses the depth of a patch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """The merged document; `document` may be changed, `patch` is not."""
    if not isinstance(patch, dict):
        return patch
    merged = document if isinstance(document, dict) else {}
    todo: list[tuple[dict[str, Any], dict[str, Any]]] = [(merged, patch)]
    while todo:
        target, changes = todo.pop()
        for key, value in changes.items():
            if value is None:
                target.pop(key, None)
            elif isinstance(value, dict):
                nested = target.get(key)
                target[key] = nested if isinstance(nested, dict) else {}
                todo.append((target[key], value))
            elif isinstance(value, list) and not isinstance(target.get(key), dict):
                target[key] = _without_nulls(value)
            else:
                target[key] = value
    return merged


def _without_nulls(items: list[Any]) -> Any:
    """A copy without the null members of its maps."""
    copied: list[Any] = []
    todo: list[tuple[Callable[[Any], None], Any]] = [(copied.append, items)]
    while todo:
        put, value = todo.pop()
        if isinstance(value, list):
            made: list[Any] = []
            put(made)
            todo += [(made.append, item) for item in reversed(value)]
        elif isinstance(value, dict):
            kept: dict[str, Any] = {}
            put(kept)
            todo += [
                (partial(kept.__setitem__, name), member)
                for name, member in reversed(value.items())
                if member is not None
            ]
        else:
            put(value)
    return copied[0]
