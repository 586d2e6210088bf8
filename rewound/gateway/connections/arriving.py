"""What arrives of a request, for the readers of every protocol: its unfinished head, its body, why it is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rewound.actors.golang.quoting import quoted
from rewound.gateway.pipeline.parameters import INVALID_ESCAPE

Parts = list[bytes | bytearray]  # of a body, as they arrive

_SMALL_PART = 4096


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a connection or a request cannot go on: the status and message of the response."""

    status: int
    message: str


def escape_fault(path: str) -> Fault | None:
    """What is wrong with the escapes of a path; call it for paths with a percent sign."""
    invalid = INVALID_ESCAPE.search(path)
    if invalid is None:
        return None
    return Fault(400, f"the path of the request has an invalid URL escape {quoted(invalid[0])}")


def add_part(parts: Parts, part: bytes) -> None:
    """Add a part of a body: tiny ones are joined, as an object for each would be many times its bytes."""
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
    def give_up_head(self) -> None:
        """End the connection soon, and release the head."""


class PartialHeads:
    """Heads that have arrived in part, on all connections: together no more than unauthenticated clients may hold.

    No client is authenticated before the end of a head, so a peer could hold as much as the largest head on every
    connection. Beyond the limit the largest is given up: honest heads are small, or the rest of them follows at once.
    """

    __slots__ = ("_limit", "_sizes", "total")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[HeadReader, int] = {}
        self.total = 0  # bytes

    def hold(self, reader: HeadReader, size: int) -> None:
        """Set how many bytes of a head a reader has; 0 when it has the whole head, or has ended."""
        self.total += size - self._sizes.pop(reader, 0)
        if not size:
            return
        self._sizes[reader] = size
        while self.total > self._limit:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self.total -= self._sizes.pop(largest)
            largest.give_up_head()

    def longest(self) -> HeadReader | None:
        """The one that has waited longest for more of a head."""
        return next(iter(self._sizes), None)
