"""How large an object may become by patches and applies, whatever their format.

A body is bounded by the connection, but an object may grow by one body after the other, nest by moving one part into
another, and carry the entries of ever more managers.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from actors.patch.errors import PatchTooLarge

# What a body may be, twice: ownership of many small fields takes as much room as they do. And some more.
MOST_BYTES: Final = 8 << 20


def check_bounds(patched: Any) -> None:
    try:
        size = len(orjson.dumps(patched))
    except TypeError:
        raise PatchTooLarge("the patched object nests too deep") from None
    if size > MOST_BYTES:
        raise PatchTooLarge(f"the patched object would take {size} bytes, at most {MOST_BYTES} are allowed")
