"""JSON going out: compact bytes for machines, indented ones for people.

Documents are stored and served as compact bytes, so `pretty` and YAML are all that ever parses an answer
again.
"""

from __future__ import annotations

from typing import Any

import orjson

_PRETTY = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def dumps(value: Any) -> bytes:
    return orjson.dumps(value)


def pretty(body: bytes) -> bytes:
    """Two spaces a level and a newline at the end."""
    try:
        return orjson.dumps(orjson.loads(body), option=_PRETTY)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        # Nested deeper than the encoder goes (a deep object inside a list): true content stands before looks.
        return body + b"\n"
