"""The parts of an arriving request that all protocols share: its partial head, its body, and why it is refused."""

from __future__ import annotations

from typing import Protocol

import msgspec

from rewound.actors.golang.quoting import quoted
from rewound.gateway.pipeline.parameters import INVALID_ESCAPE

Parts = list[bytes | bytearray]  # the parts of a body as they arrive

_SMALL_PART = 4096


class Fault(msgspec.Struct, frozen=True):
    """Why a connection or a request cannot continue: the status and message of the response."""

    status: int
    message: str


def escape_fault(path: str) -> Fault | None:
    """The fault of a path with an invalid escape, or None; call it for paths that contain a percent sign."""
    invalid = INVALID_ESCAPE.search(path)
    if invalid is None:
        return None
    return Fault(400, f"the path of the request has an invalid URL escape {quoted(invalid[0])}")


def add_part(parts: Parts, part: bytes) -> None:
    """Add a part of a body, joining tiny ones: an object for each would take many times their bytes."""
    if len(part) >= _SMALL_PART or not parts:
        parts.append(part)
    elif isinstance(last := parts[-1], bytearray):
        last += part
    else:
        parts.append(bytearray(part))


def join_parts(parts: Parts) -> bytes:
    first = parts[0] if parts else b""
    return first if len(parts) < 2 and isinstance(first, bytes) else b"".join(parts)


class HeadReader(Protocol):
    def drop_head(self) -> None:
        """Release the head, and end the connection soon."""


class PartialHeads:
    """The partial heads of all connections, limited to what unauthenticated clients together may hold.

    No client is authenticated before its head is complete, so a peer could hold as much as the largest head on every
    connection. Beyond the limit the largest one is dropped: honest heads are small, or complete soon.
    """

    __slots__ = ("_limit", "_sizes", "total")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[HeadReader, int] = {}
        self.total = 0  # bytes

    def hold(self, reader: HeadReader, size: int) -> None:
        """Set how many bytes of a head a reader has; 0 if the head is complete or the connection has ended."""
        self.total += size - self._sizes.pop(reader, 0)
        if not size:
            return
        self._sizes[reader] = size
        while self.total > self._limit:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self.total -= self._sizes.pop(largest)
            largest.drop_head()

    def longest_waiting(self) -> HeadReader | None:
        """The reader that has waited longest for the rest of a head."""
        return next(iter(self._sizes), None)
