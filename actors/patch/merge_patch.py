"""RFC 7396 merge patch: maps are merged, null deletes, everything else replaces.

Without recursion, because the depth of a patch is the client's choice.
"""

from __future__ import annotations

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
            else:
                target[key] = value
    return merged
