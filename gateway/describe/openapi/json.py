"""The pieces of a description as one JSON document, still in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from gateway.describe.openapi.version_2 import Encoded, Piece


def json_member(_: str, name: str, value: Any) -> bytes:
    return orjson.dumps(name) + b":" + orjson.dumps(value)


def as_json(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """Pieces that belong to the same place come one after another; a place is opened and closed once."""
    opened: list[str] = []
    comma = b"{"
    for where, name, value in pieces:
        wanted = where.split("/") if where else []
        while opened != wanted[: len(opened)]:
            opened.pop()
            yield b"}"
            comma = b","
        for part in wanted[len(opened) :]:
            opened.append(part)
            yield comma + orjson.dumps(part) + b":"
            comma = b"{"
        yield comma + (value.members if isinstance(value, Encoded) else json_member(where, name, value))
        comma = b","
    yield b"}" * (len(opened) + 1)
