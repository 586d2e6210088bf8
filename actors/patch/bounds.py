"""The size limit of objects that patches and applies produce.

The connection bounds one body, but an object can grow with every patch, nest deeper when an operation moves one part
into another, and gather entries of ever more managers.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from actors.patch.errors import PatchTooLarge

# Twice the limit of a body, because entries for many small fields are as large as the fields, and some more.
MAX_BYTES: Final = 8 << 20


def check_bounds(patched: Any) -> int:
    """The size of the object in bytes; PatchTooLarge if it is too large."""
    try:
        size = len(orjson.dumps(patched))
    except TypeError:
        raise PatchTooLarge("the patched object nests too deep") from None
    if size > MAX_BYTES:
        raise PatchTooLarge(f"the patched object would take {size} bytes, at most {MAX_BYTES} are allowed")
    return size
