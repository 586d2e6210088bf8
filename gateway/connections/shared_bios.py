"""The memory BIOs of all TLS connections, and how many handshakes are in progress on them.

The server creates one `SharedBios` for all its `TlsTransport`s. A BIO never frees the memory that it grew to; one pair
for all connections costs that once (docs/decisions/0005-tls.md).
"""

from __future__ import annotations

import ssl

import trio


class SharedBios:
    """The memory BIOs that all SSL objects of a server share; each user empties both before it awaits."""

    __slots__ = ("_finished", "handshakes", "incoming", "outgoing")

    def __init__(self) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.handshakes = 0  # that have begun and not ended
        self._finished = trio.Event()

    async def handshakes_below(self, limit: int) -> None:
        while self.handshakes >= limit:
            self._finished = trio.Event()
            await self._finished.wait()

    def handshake_ended(self) -> None:
        self.handshakes -= 1
        self._finished.set()
