"""JSON of responses: compact bytes for programs, indented ones for people.

A compact document ends with a newline and an indented one does not, as Go's encoders write them. Documents are
stored and served as compact bytes; only `pretty`, YAML and protobuf parse a response again.
"""

from __future__ import annotations

from typing import Any

import orjson

from rewound.actors.golang.json import dumps


def dump_line(value: Any) -> bytes:
    """A compact document with the newline at its end."""
    return dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def pretty(body: bytes) -> bytes:
    """The document with two spaces of indentation per level."""
    try:
        return dumps(orjson.loads(body), option=orjson.OPT_INDENT_2)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        # The encoder limits nesting, which a deep object inside a list can exceed: send it compact.
        return body
