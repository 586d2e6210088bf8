"""JSON going out: compact bytes for machines, indented ones for people.

A compact document ends with a newline and an indented one does not, as Go's encoders write them. Documents are
stored and served as compact bytes, so `pretty` and YAML are all that ever parses a response again.
"""

from __future__ import annotations

from typing import Any

import orjson


def dump_line(value: Any) -> bytes:
    """A whole compact document."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def pretty(body: bytes) -> bytes:
    """Two spaces a level."""
    try:
        return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        # Nested deeper than the encoder goes (a deep object inside a list): true content stands before looks.
        return body
