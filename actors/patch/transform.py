"""Applies a JSON patch, merge patch or strategic merge patch to a document, and bounds the result."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from actors.kinds.schema.exact_decoder import Problems
from actors.kinds.schema.fields import Struct
from actors.kinds.schema.json_tree import Members, NotJson, parse_tree, parse_values
from actors.patch.bounds import check_bounds
from actors.patch.errors import MalformedPatch
from actors.patch.json_patch import apply_json_patch, parse_json_patch
from actors.patch.merge_patch import apply_merge_patch
from actors.patch.strategic import apply_strategic_patch
from actors.quoting import quoted_start

_MEMBERS = frozenset({"op", "path", "from", "value"})


def read_patch(format_: str, raw: bytes) -> tuple[Any, tuple[str, ...]]:
    """Parse a patch; returns its value and its unknown or duplicate fields."""
    try:
        value, doubled = parse_values(raw)
    except NotJson as error:
        raise MalformedPatch(f"the patch is not JSON: {error}") from None
    repeated = _duplicates(parse_tree(raw), "") if doubled else iter(())
    if format_ == "json":
        operations = parse_json_patch(value)
        doubtful = chain(repeated, _unknown_members(operations))
        return operations, Problems(f"json patch {problem}" for problem in doubtful).texts()
    if value is None and format_ == "strategic":
        return {}, ()
    if not isinstance(value, dict):
        raise MalformedPatch("the patch must be an object")
    return value, Problems(repeated).texts()


def transform(format_: str, document: dict[str, Any], patch: Any, struct: Struct) -> tuple[Any, int]:
    """The patched document and its size in bytes."""
    patched = _patched(format_, document, patch, struct)
    return patched, check_bounds(patched)


def _patched(format_: str, document: dict[str, Any], patch: Any, struct: Struct) -> Any:
    if format_ == "json":
        return apply_json_patch(document, patch)
    if format_ == "merge":
        return apply_merge_patch(document, patch)
    return apply_strategic_patch(document, patch, struct)


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
