"""Reads what can be read of JSON that no parser takes as a whole: each member and each item for itself.

A document that nests deeper than orjson reads (1,024 levels), that has a number beyond a double, or bytes that are not
UTF-8, would otherwise be lost with all that came with it: a page of a list, a batch of audit events, a watch. Only
brackets and strings are looked at, so that a part may contain anything. `Steps`, because others chose the size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from rewound.actors.runtime.steps import Steps

Document = dict[str, Any]
T = TypeVar("T")

_BRACKETS: Final = re.compile(rb'["\[\]{}]')
_MEMBERS: Final = re.compile(rb'["\[\]{},:]')
_TEXT: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)  # without its end
_PIECE: Final = 1 << 13  # bytes of a string in one step
_OPENING: Final = b"[{"
_LONG: Final = 0.0005  # seconds
_CHECKED: Final = 64  # brackets and strings between two looks at the clock
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")


class Part(NamedTuple):
    key: bytes  # of a member, with its quotation marks; empty for an item
    start: int
    end: int


class Malformed(ValueError):
    """It is no JSON at all, or ends too early."""


def parts_in(data: bytes, start: int = 0, *, cut: bool = False) -> Steps[list[Part]]:
    """The members of the object, or the items of the list, that begins at a position.

    Raises Malformed. `cut`: the data may end in the middle, and so does the last part.
    """
    found: list[Part] = []
    if data[start : start + 1] not in (b"{", b"["):
        raise Malformed("it is no object or list")
    depth, at, key, begin = 1, start + 1, b"", start + 1
    seen, since = 0, perf_counter()
    while True:
        seen += 1
        if seen % _CHECKED == 0 and perf_counter() - since > _LONG:
            yield
            since = perf_counter()
        match = (_MEMBERS if depth == 1 else _BRACKETS).search(data, at)
        if match is None:
            break
        at, byte = match.end(), match[0]
        if byte == b'"':
            at = yield from _string_end(data, at)
            if at < 0:
                break
        elif byte in _OPENING:
            depth += 1
        elif byte == b":":
            key, begin = data[begin : match.start()].strip(), at
        elif byte == b"," or depth == 1:
            if data[begin : match.start()].strip() or key:
                found.append(Part(key, *_stripped(data, begin, match.start())))
            if byte != b",":
                return found
            key, begin = b"", at
        else:
            depth -= 1
    if not cut:
        raise Malformed("it ends too early")
    if key:
        found.append(Part(key, *_stripped(data, begin, len(data))))
    return found


def _string_end(data: bytes, at: int) -> Steps[int]:
    """Where the string ends whose text begins at a position; -1 if it does not."""
    while True:
        match = _TEXT.match(data, at, at + _PIECE)
        assert match is not None, "it matches nothing, too"
        if data[match.end() : match.end() + 1] == b'"':
            return match.end() + 1
        if match.end() == at:
            return -1
        at = match.end()
        yield


def _stripped(data: bytes, start: int, end: int) -> tuple[int, int]:
    spaces = b" \t\r\n"
    while start < end and data[start] in spaces:
        start += 1
    while end > start and data[end - 1] in spaces:
        end -= 1
    return start, end


def loaded(data: bytes, part: Part) -> Any:
    """The value of a part. Raises orjson.JSONDecodeError."""
    return orjson.loads(memoryview(data)[part.start : part.end])


def part_of(data: bytes, parts: list[Part], name: bytes) -> Part | None:
    """The last member of a name, as parsers choose it."""
    return next((one for one in reversed(parts) if one.key == b'"%b"' % name), None)


def readable_members(data: bytes, parts: list[Part]) -> tuple[Document, list[str]]:
    """The members that can be read, and the names of the others."""
    found: Document = {}
    others: list[str] = []
    for part in parts:
        name = part.key.strip(b'"').decode("utf-8", "replace")
        try:
            found[name] = loaded(data, part)
        except orjson.JSONDecodeError:
            others.append(name)
    return found, others


def identity_in(data: bytes, start: int, *, cut: bool = False) -> Steps[dict[str, str]]:
    """Name, namespace, uid and version of the object that begins at a position, as far as they are there as texts."""
    try:
        members = yield from parts_in(data, start, cut=cut)
        metadata = part_of(data, members, b"metadata")
        if metadata is None:
            return {}
        fields = yield from parts_in(data, metadata.start, cut=cut)
    except Malformed:
        return {}
    return dict(_texts(data, fields))


def _texts(data: bytes, fields: list[Part]) -> Iterator[tuple[str, str]]:
    for name in _IDENTITY:
        part = part_of(data, fields, name.encode())
        try:
            value = None if part is None else loaded(data, part)
        except orjson.JSONDecodeError:
            continue
        if isinstance(value, str):
            yield name, value


def why_unreadable(error: Exception) -> str:
    """Why a parser refuses a document, in words without its content."""
    text = str(error)
    if "depth limit" in text or isinstance(error, RecursionError):
        return "it nests too deep"
    return f"it is not JSON that can be read ({text.partition(': line ')[0][:100]})"


class Unread(NamedTuple):
    """An item of a list, or the object of an event, that cannot be read."""

    identity: dict[str, str]
    why: str


def list_in_parts(body: bytes) -> Steps[Document]:
    """A list whose items are read one by one; those that cannot be read are `Unread`. Raises Malformed."""
    parts = yield from parts_in(body)
    items = part_of(body, parts, b"items")
    found, _ = readable_members(body, [one for one in parts if one is not items])
    if items is None or body[items.start : items.start + 1] != b"[":
        return found | ({} if items is None else {"items": 0})
    found["items"] = read = list[Any]()
    for part in (yield from parts_in(body, items.start)):
        try:
            read.append(loaded(body, part))
        except orjson.JSONDecodeError as error:
            identity = yield from identity_in(body, part.start)
            read.append(Unread(identity, why_unreadable(error)))
        yield
    return found


def event_in_parts(line: bytes, why: str, *, cut: bool = False) -> Steps[Document]:
    """A watch event whose object is `Unread`. `cut`: of a line that is too long, this is the beginning.

    Raises Malformed.
    """
    parts = yield from parts_in(line, cut=cut)
    kind, given = part_of(line, parts, b"type"), part_of(line, parts, b"object")
    try:
        found: Document = {"type": None if kind is None else loaded(line, kind)}
    except orjson.JSONDecodeError:
        found = {"type": None}
    if given is None:
        raise Malformed("it has no object")
    found["object"] = Unread((yield from identity_in(line, given.start, cut=cut)), why)
    return found
