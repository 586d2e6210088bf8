"""JSON of responses: compact for programs, indented for people.

Like Go's encoders, a compact document ends with a newline and an indented one does not. Documents are stored and
served as compact bytes; only `pretty`, YAML and protobuf parse a response again.
"""

from __future__ import annotations

from typing import Any

import orjson

from rewound.actors.golang.json import dumps


def dump_line(value: Any) -> bytes:
    """A compact document, with a newline at the end."""
    return dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def pretty(body: bytes) -> bytes:
    """The document, indented by two spaces per level."""
    try:
        return dumps(orjson.loads(body), option=orjson.OPT_INDENT_2)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        # The encoder limits nesting, which a deep object inside a list can exceed: send the document compact.
        return body
