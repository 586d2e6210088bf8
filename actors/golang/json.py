"""JSON as Go's encoder writes it, for everything that is stored or sent.

orjson writes it; `journal.escapes` adds the escapes that Go has besides.
"""

from __future__ import annotations

from typing import Any

import orjson

from journal.escapes import escaped


def dumps(value: Any, option: int = 0) -> bytes:
    """JSON of a value; `option` is one of orjson's."""
    return escaped(orjson.dumps(value, option=option))
