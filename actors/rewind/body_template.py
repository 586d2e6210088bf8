"""The bytes of a JSON object with placeholders for some values.

It finds the values that the next version of the object has there, without parsing the rest.

    body        {"metadata":{"name":"a"},"spec":{...},"status":{"observed":7}}
    paths       [("status", "observed")]
    pieces      {"metadata":{"name":"a"},"spec":{...},"status":{"observed":      and      }}

A body that consists of the pieces with a JSON value between each two is the same object with these values, because JSON
can be parsed in one way only. The caller has to check that what is between two pieces is JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson

from actors.go_json import dumps

Path = tuple[str, ...]  # keys of nested objects

# Bytes at the beginning of a piece by which it is searched: the search for more takes longer to prepare.
_NEEDLE: Final = 48
_PLACEHOLDER: Final = "\0placeholder %d"
_split = re.compile(rb'"\\u0000placeholder ([0-9]+)"').split


class BodyTemplate:
    __slots__ = ("_first", "_last", "_middle", "paths")

    def __init__(self, pieces: Sequence[bytes], paths: Sequence[Path]) -> None:
        """`paths` are those of the placeholders between the pieces, at least one."""
        self._first, self._last = pieces[0], pieces[-1]
        self._middle = [(piece[:_NEEDLE], piece, len(piece)) for piece in pieces[1:-1]]
        self.paths = paths

    def texts(self, body: bytes) -> list[bytes] | None:
        """What a body has between the pieces; None if the rest of it is not that of the template."""
        if not (body.startswith(self._first) and body.endswith(self._last)):
            return None
        begin = len(self._first)
        found: list[bytes] = []
        for needle, piece, size in self._middle:
            end = body.find(needle, begin)
            if not body.startswith(piece, end):
                end = body.find(piece, begin)
            if end < 0:
                return None
            found.append(body[begin:end])
            begin = end + size
        found.append(body[begin : len(body) - len(self._last)])
        return found


def body_template(body: bytes, paths: Sequence[Path]) -> BodyTemplate | None:
    """A template of a body with placeholders at some paths, none of which is below another. None without one."""
    if not paths:
        return None
    document = orjson.loads(body)
    for number, path in enumerate(paths):
        parent: Any = document
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = _PLACEHOLDER % number
    try:
        parts = _split(dumps(document))
    except orjson.JSONEncodeError:
        return None  # nested too deep
    if len(parts) != 2 * len(paths) + 1:
        return None  # the object itself has a value like that of a placeholder
    return BodyTemplate(parts[::2], [paths[int(number)] for number in parts[1::2]])
