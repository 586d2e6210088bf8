"""How many seats a request takes: one, and more for long lists and large bodies.

Lists as in v1.25, by the number of stored objects of the resource. Kubernetes also keeps seats for some time after a
write with many watchers; here the sweeps of watch groups limit themselves. Bodies are our own: decoding and validating
one takes time in proportion to its size, so a flow of large bodies gets fewer of them in progress.
"""

from __future__ import annotations

from typing import Final

MAX_SEATS: Final = 10
OBJECTS_PER_SEAT: Final = 100
BYTES_PER_SEAT: Final = 256 * 1024


def list_seats(stored: int, limit: int, *, any_version: bool, selective: bool) -> int:
    """`limit` is 0 without one; `any_version` if the client accepts any (resourceVersion=0)."""
    wanted = min(limit, stored) if limit > 0 else stored
    if any_version:
        objects = stored
    elif selective:
        objects = stored + wanted
    else:
        objects = 2 * wanted
    return max(1, min(-(-objects // OBJECTS_PER_SEAT), MAX_SEATS))


def body_seats(length: int) -> int:
    return max(1, min(-(-length // BYTES_PER_SEAT), MAX_SEATS))
