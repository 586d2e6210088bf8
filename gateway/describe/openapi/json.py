"""Writes the entries of an OpenAPI document as JSON, entry by entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from actors.go_json import dumps
from gateway.describe.openapi.version_2 import Encoded, Entry


def json_member(_: str, name: str, value: Any) -> bytes:
    return dumps(name) + b":" + dumps(value)


def as_json(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Entries of the same parent must follow each other; each parent object is opened and closed once."""
    opened: list[str] = []
    comma = b"{"
    for path, name, value in entries:
        parents = path.split("/") if path else []
        while opened != parents[: len(opened)]:
            opened.pop()
            yield b"}"
            comma = b","
        for part in parents[len(opened) :]:
            opened.append(part)
            yield comma + dumps(part) + b":"
            comma = b"{"
        yield comma + (value.members if isinstance(value, Encoded) else json_member(path, name, value))
        comma = b","
    yield b"}" * (len(opened) + 1)
