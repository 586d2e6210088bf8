"""How many values the JSON of an object may have, and how many make it large.

The time that an object takes depends on its values more than on its bytes. Some of it is spent in single calls of C
code, which hold the interpreter lock: parsing and freeing take up to half a microsecond per value. `MAX_VALUES` keeps
the longest of these calls at about 50 ms. A CustomResourceDefinition of 1.5 MB has about 50,000 values.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.errors import TooLarge
from rewound.actors.runtime.large_work import LARGE_BYTES

MAX_VALUES: Final = 100_000
# For a stored object, and for a body that replaces one: managedFields has up to one value per value that a client
# sends.
MAX_STORED_VALUES: Final = 2 * MAX_VALUES
# Bodies with more values are large, however short: validating one value takes up to 50 microseconds.
MANY_VALUES: Final = 600
# Shorter bodies need not be counted: each value takes at least two bytes, a digit and a comma.
COUNTED_BYTES: Final = 2 * MANY_VALUES


def is_large(raw: bytes) -> bool:
    """Whether this JSON text must be decoded and decided in a worker thread."""
    size = len(raw)
    return size > LARGE_BYTES or (size > COUNTED_BYTES and _separators(raw) > MANY_VALUES)


def check_values(raw: bytes, limit: int = MAX_VALUES) -> int:
    """Count the values in a JSON text, possibly a few too many. Raises TooLarge if there are more than `limit`."""
    count = _separators(raw)
    if count > limit:
        count = _separators_outside_strings(raw, limit)
    if count > limit:
        raise too_many_values(str(count), limit)
    return count


def too_many_values(count: str, limit: int) -> TooLarge:
    return TooLarge(
        f"Request entity too large: the object has {count} values (members of objects and items of lists), at "
        f"most {limit} are allowed: divide it into several objects"
    )


def _separators(raw: bytes) -> int:
    """Count commas: every value but the first of its object or list follows one."""
    return raw.count(b",") + raw.count(b"{") + raw.count(b"[")


def _separators_outside_strings(raw: bytes, limit: int) -> int:
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    strings = bare.count(b'"') // 2
    if strings > 2 * limit:  # each string is a value or the name of one
        return strings // 2
    return _separators(b"".join(bare.split(b'"')[::2]))
