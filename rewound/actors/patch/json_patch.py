"""RFC 6902 JSON patch, with the leniencies that Kubernetes clients rely on.

`apply_json_patch(document, operations)` changes and returns the document; when an operation fails the caller discards
the document, so nothing is half-applied. Leniencies: `replace` of a missing key of a map sets it, a missing key tests
equal to null and is copied as null, an operation without a value means null, a negative index counts from the end,
and anything before the first slash of a path is ignored. The number of operations, the bytes that they copy and the
list items that they shift are bounded, so that a small patch can neither make a document grow without bound nor keep
a server busy with one list; one that copies much needs a worker thread. Values of the patch are copied into the
document: the patch itself never changes.

    [{"op": "add", "path": "/data/a~1b", "value": "x"}]     sets data["a/b"]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from rewound.actors.golang.json import unescaped
from rewound.actors.patch.errors import MalformedPatch, PatchDoesNotFit, PatchTooLarge
from rewound.actors.runtime.time_limit import check_time, need_thread

MAX_OPERATIONS = 10_000
MAX_COPIED = 3 << 20
COPIED_IN_LOOP = 64 << 10  # bytes: a millisecond
MAX_SHIFTED = 100_000_000  # some tenths of a second of moving memory

_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})
_TEXTS = ("op", "path", "from")
_PLACE = re.compile(r"[+-]?[0-9]{1,9}")
_MISSING = object()


def parse_json_patch(value: Any) -> list[dict[str, Any]]:
    """Return the operations of a patch document. Errors in an operation are found only when it is applied."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise MalformedPatch("a JSON patch is a list of operations, each an object with op and path")
    if len(value) > MAX_OPERATIONS:
        raise PatchTooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(value)}"
        )
    for index, operation in enumerate(value):
        for name in _TEXTS:
            if not isinstance(operation.get(name, ""), str | None):
                raise MalformedPatch(f"error decoding patch: [{index}].{name} must be a string")
    return value


def apply_json_patch(document: Any, operations: Sequence[dict[str, Any]], *, tests_null: bool = False) -> Any:
    """`tests_null`: a missing key tests equal to no value, but not to null."""
    run = _Application(document, tests_null)
    for index, operation in enumerate(operations):
        check_time()
        try:
            run.perform(operation)
        except PatchDoesNotFit as error:
            failed = PatchDoesNotFit(f"operation {index}: {error}")
            failed.operation, failed.document = operation, run.document
            raise failed from None
    return run.document


class _Application:
    def __init__(self, document: Any, tests_null: bool) -> None:
        self.document, self._tests_null = document, tests_null
        self._copied = 0
        self._shifted = 0

    def perform(self, operation: dict[str, Any]) -> None:
        op = operation.get("op")
        if op not in _OPERATIONS:
            raise PatchDoesNotFit(f"unexpected kind: {op!r} is not one of {', '.join(sorted(_OPERATIONS))}")
        path = _pointer(operation, "path")
        match op:
            case "add":
                self._add(path, _value(operation))
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, _value(operation))
            case "test":
                self._test(path, operation)
            case "move":
                source = _pointer(operation, "from")
                moved = self._find(source)
                self._remove(source)
                self._add(path, moved)
            case _:
                self._add(path, self._copy(_pointer(operation, "from")))

    def _copy(self, path: list[str]) -> Any:
        found = self._child_of_parent(path)
        text = _text(None if found is _MISSING else found)
        self._copied += len(text)
        if self._copied > MAX_COPIED:
            raise PatchDoesNotFit(
                f"the copy operations of a JSON patch may copy at most {MAX_COPIED} bytes, got {self._copied}"
            )
        if self._copied > COPIED_IN_LOOP:
            need_thread()
        return orjson.loads(text)

    def _child_of_parent(self, path: list[str]) -> Any:
        """Return the value at a path, or _MISSING. Raises PatchDoesNotFit for an index that the list does not have."""
        parent = self._parent(path)
        if isinstance(parent, list):
            return parent[_index(path, len(parent))]
        return parent.get(path[-1], _MISSING)

    def _shift(self, items: list[Any], index: int) -> None:
        self._shifted += len(items) - index
        if self._shifted > MAX_SHIFTED:
            raise PatchTooLarge("the operations of this JSON patch move too many items of long lists")

    def _find(self, path: list[str]) -> Any:
        node = self.document
        for token in path:
            node = _child(node, token)
            if node is _MISSING:
                raise PatchDoesNotFit(f"there is nothing at {_shown(path)}")
        return node

    def _parent(self, path: list[str]) -> Any:
        if not path:
            raise PatchDoesNotFit("this operation needs a path into the document")
        parent = self._find(path[:-1])
        if not isinstance(parent, dict | list):
            raise PatchDoesNotFit(f"{_shown(path[:-1])} is neither a map nor a list")
        return parent

    def _add(self, path: list[str], value: Any) -> None:
        parent = self._parent(path)
        if isinstance(parent, dict):
            parent[path[-1]] = value
        elif path[-1] == "-":
            parent.append(value)
        else:
            index = _index(path, len(parent) + 1)
            self._shift(parent, index)
            parent.insert(index, value)

    def _remove(self, path: list[str]) -> None:
        parent = self._parent(path)
        if isinstance(parent, list):
            index = _index(path, len(parent))
            self._shift(parent, index)
            del parent[index]
        elif path[-1] in parent:
            del parent[path[-1]]
        else:
            raise PatchDoesNotFit(f"there is nothing at {_shown(path)}")

    def _replace(self, path: list[str], value: Any) -> None:
        if not path:
            self.document = value
            return
        parent = self._parent(path)
        if isinstance(parent, dict):
            parent[path[-1]] = value
        else:
            parent[_index(path, len(parent))] = value

    def _test(self, path: list[str], operation: dict[str, Any]) -> None:
        node = self._child_of_parent(path) if path else self.document
        failed = node is _MISSING and self._tests_null and "value" in operation
        if failed or not same(None if node is _MISSING else node, operation.get("value")):
            raise PatchDoesNotFit(f"testing value {_shown(path)} failed")


def same(one: Any, other: Any) -> bool:
    """Whether JSON values are equal: true is not 1, but 1 is 1.0. Not recursive, because clients choose the depth."""
    todo = [(one, other)]
    while todo:
        one, other = todo.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            todo.extend((one[key], other[key]) for key in one)
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            todo.extend(zip(one, other, strict=True))
        elif isinstance(one, bool) is not isinstance(other, bool) or one != other:
            return False
    return True


def _text(value: Any) -> bytes:
    try:
        return unescaped(value)
    except TypeError:
        raise PatchTooLarge("the patched document nests too deep") from None


def _pointer(operation: dict[str, Any], name: str) -> list[str]:
    pointer = operation.get(name)
    if not isinstance(pointer, str):
        raise PatchDoesNotFit(f"{operation.get('op')} needs a {name}")
    if not pointer:
        return []
    _, slash, rest = pointer.partition("/")
    if not slash:
        raise PatchDoesNotFit(f"the {name} {pointer!r} has no slash")
    return [token.replace("~1", "/").replace("~0", "~") for token in rest.split("/")]


def _value(operation: dict[str, Any]) -> Any:
    value = operation.get("value")
    return orjson.loads(unescaped(value)) if isinstance(value, dict | list) else value


def _child(node: Any, token: str) -> Any:
    if isinstance(node, dict):
        return node.get(token, _MISSING)
    if isinstance(node, list) and (place := _place(token, len(node))) is not None and place < len(node):
        return node[place]
    return _MISSING


def _place(token: str, size: int) -> int | None:
    """Return the index that a token stands for in a list of this size; negative ones count from the end."""
    if not _PLACE.fullmatch(token):
        return None
    place = int(token)
    place += size if place < 0 else 0
    return place if place >= 0 else None


def _index(path: list[str], limit: int) -> int:
    place = _place(path[-1], limit)
    if place is None or place >= limit:
        raise PatchDoesNotFit(f"{path[-1]!r} is no index of the list at {_shown(path[:-1])}")
    return place


def _shown(path: list[str]) -> str:
    return "/" + "/".join(token.replace("~", "~0").replace("/", "~1") for token in path) if path else '""'
