"""One door to the plain patches: a document and a patch of some format to the patched document."""

from __future__ import annotations

from typing import Any

from actors.kinds.fields import Struct
from actors.kinds.scan import Members, NotJson, plain, scan
from actors.patch.errors import MalformedPatch
from actors.patch.json_patch import apply_json_patch, parse_json_patch
from actors.patch.merge_patch import apply_merge_patch
from actors.patch.strategic import apply_strategic_patch

FORMATS = ("json", "merge", "strategic")
_MEMBERS = frozenset({"op", "path", "from", "value"})


def read_patch(format_: str, raw: bytes) -> tuple[Any, tuple[str, ...]]:
    """A patch's text to its value, and what is doubtful about its fields."""
    try:
        document = scan(raw)
        value = plain(document)
    except NotJson as error:
        raise MalformedPatch(f"the patch is not JSON: {error}") from None
    problems = tuple(_duplicates(document, ""))
    if format_ == "json":
        return parse_json_patch(value), problems + tuple(_unknown_members(value))
    if not isinstance(value, dict):
        raise MalformedPatch("the patch must be an object")
    return value, problems


def transform(format_: str, document: dict[str, Any], patch: Any, struct: Struct) -> Any:
    if format_ == "json":
        return apply_json_patch(document, patch)
    if format_ == "merge":
        return apply_merge_patch(document, patch)
    return apply_strategic_patch(document, patch, struct)


def _unknown_members(operations: list[dict[str, Any]]) -> list[str]:
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations)
        for name in operation
        if name not in _MEMBERS
    ]


def _duplicates(value: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, Members):
        seen: set[str] = set()
        for name, member in value:
            here = f"{path}.{name}" if path else name
            if name in seen:
                found.append(f'duplicate field "{here}"')
            seen.add(name)
            found += _duplicates(member, here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _duplicates(item, f"{path}[{index}]")
    return found
