"""Applies a JSON patch, merge patch or strategic merge patch to a document, and bounds the result.

The connection bounds one body, but an object can grow with every patch, nest deeper when an operation moves one part
into another, and collect entries of ever more managers.

A merge patch is that of RFC 7396: maps are merged, null deletes, everything else replaces. Null members of maps
inside a list are dropped, as in Kubernetes, where RFC 7396 would keep them; as in Kubernetes, a list that replaces a
map keeps them. No recursion, because the client chooses the depth of a patch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Final

from rewound.actors.golang.json import is_too_deep, unescaped
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.schema.exact_decoder import Problems
from rewound.actors.kinds.schema.fields import Struct
from rewound.actors.kinds.schema.json_tree import Members, NotJson, parse_tree, parse_values
from rewound.actors.kinds.schema.scalars import json_type_of
from rewound.actors.patch.errors import MalformedPatch, PatchTooLarge
from rewound.actors.patch.json_patch import apply_json_patch, parse_json_patch
from rewound.actors.patch.strategic import apply_strategic_patch
from rewound.actors.runtime.large_work import LARGE_BYTES, MAX_STORED_VALUES, check_values

# Twice the limit of a body and some more, because entries for many small fields are as large as the fields.
MAX_BYTES: Final = 8 << 20


def check_bounds(patched: Any) -> int:
    """Return the size of the object in bytes. Raises PatchTooLarge or TooLarge if it is too large."""
    try:
        written = unescaped(patched)
    except TypeError:
        written = None
    if written is None or is_too_deep(patched, written):
        raise PatchTooLarge("the patched object nests too deep")
    size = len(written)
    if size > MAX_BYTES:
        raise PatchTooLarge(f"the patched object would take {size} bytes, at most {MAX_BYTES} are allowed")
    if size > LARGE_BYTES:
        check_values(written, MAX_STORED_VALUES)
    return size


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """Return the merged document; `document` may be changed, `patch` is not."""
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
    """Return a copy without the null members of its maps."""
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


_MEMBERS = frozenset({"op", "path", "from", "value"})


def read_patch(format_: str, raw: bytes) -> tuple[Any, tuple[str, ...]]:
    """Parse a patch; return its value and its unknown or duplicate fields."""
    try:
        value, doubled = parse_values(raw)
    except NotJson as error:
        decoding = "" if format_ == "strategic" else "error decoding patch: "
        raise MalformedPatch(f"{decoding}{error.reason}") from None
    repeated = _duplicates(parse_tree(raw), "") if doubled else iter(())
    if format_ == "json":
        operations = parse_json_patch(value)
        doubtful = chain(repeated, _unknown_members(operations))
        return operations, Problems(f"json patch {problem}" for problem in doubtful).texts()
    if value is None and format_ == "strategic":
        return {}, ()
    if not isinstance(value, dict):
        decoding = "" if format_ == "strategic" else "error decoding patch: "
        found = "null" if value is None else json_type_of(value)
        raise MalformedPatch(
            f"{decoding}json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    return value, Problems(repeated).texts()


def transform(
    format_: str,
    document: dict[str, Any],
    patch: Any,
    struct: Struct | None,
    *,
    directives_everywhere: bool = False,
) -> tuple[Any, int]:
    """Return the patched document and its size in bytes."""
    patched = _patched(format_, document, patch, struct, directives_everywhere)
    return patched, check_bounds(patched)


def _patched(
    format_: str, document: dict[str, Any], patch: Any, struct: Struct | None, directives_everywhere: bool
) -> Any:
    if format_ == "json":
        return apply_json_patch(document, patch)
    if format_ == "merge":
        return apply_merge_patch(document, patch)
    return apply_strategic_patch(document, patch, struct, directives_everywhere=directives_everywhere)


def _unknown_members(operations: list[dict[str, Any]]) -> Iterator[str]:
    for index, operation in enumerate(operations):
        for name in operation:
            if name not in _MEMBERS:
                yield f"unknown field {quoted_start(f'[{index}].{name}')}"


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Members):
        seen: set[str] = set()
        for name, member in value:
            here = f"{path}.{name}" if path else name
            if name in seen:
                yield f"duplicate field {quoted_start(here)}"
            seen.add(name)
            yield from _duplicates(member, here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{index}]")
