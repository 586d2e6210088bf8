"""The size limit of objects that patches and applies produce.

The connection bounds one body, but an object can grow with every patch, nest deeper when an operation moves one part
into another, and gather entries of ever more managers.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from actors.large_work import LARGE_BYTES
from actors.patch.errors import PatchTooLarge
from actors.value_count import MAX_STORED_VALUES, check_values

# Twice the limit of a body, because entries for many small fields are as large as the fields, and some more.
MAX_BYTES: Final = 8 << 20


def check_bounds(patched: Any) -> int:
    """The size of the object in bytes; PatchTooLarge or TooLarge if it is too large."""
    try:
        written = orjson.dumps(patched)
    except TypeError:
        raise PatchTooLarge("the patched object nests too deep") from None
    size = len(written)
    if size > MAX_BYTES:
        raise PatchTooLarge(f"the patched object would take {size} bytes, at most {MAX_BYTES} are allowed")
    if size > LARGE_BYTES:
        check_values(written, MAX_STORED_VALUES)
    return size
