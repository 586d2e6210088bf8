"""The pieces of a description as one JSON document, still in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson

from gateway.describe.openapi.version_2 import Piece


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
        yield comma + orjson.dumps(name) + b":" + orjson.dumps(value)
        comma = b","
    yield b"}" * (len(opened) + 1)
