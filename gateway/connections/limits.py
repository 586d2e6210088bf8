"""What one client may cost: sizes, times and counts that the connection layer enforces.

`Server` takes one `Limits`; nothing else in the gateway spells such a number. Times are in seconds of
trio's clock and are kept by a watchdog that looks once a second (`TICK`), so each may run over by that
much: one sweep over all connections was preferred to a cancel scope per read, which every request would pay
for.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass, field

KIB = 1024
TICK = 1.0


def affordable_connections() -> int:
    """Connections that the process's file limit allows, with room left for the journal, logs and webhooks."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 100_000
    return max(16, int(soft) - 128)


@dataclass(frozen=True, slots=True)
class Limits:
    body: int = 3 * KIB * KIB
    # Long selectors travel in the request line; beyond this a client should have paged or posted.
    target: int = 64 * KIB
    head: int = 128 * KIB  # request line and headers together
    headers: int = 200

    handshake_seconds: float = 10.0
    head_seconds: float = 32.0  # from the first byte of a request to the end of its headers
    # Longer than the 90 s after which Go clients drop an idle connection: the client closes first, so no
    # request is ever sent into a connection that we are closing.
    idle_seconds: float = 120.0
    # A body (either way) may always take this long, and longer only at `slowest` bytes a second or more.
    transfer_seconds: float = 30.0
    slowest: int = 16 * KIB
    # How long a refused client's leftover bytes are read away, so that a reset does not destroy our answer.
    linger_seconds: float = 2.0

    connections: int = field(default_factory=affordable_connections)
    streams: int = 100  # HTTP/2 requests at work at once on one connection

    def transfer_deadline(self, started: float, done: int) -> float:
        """When a transfer that began at `started` and has moved `done` bytes must have moved more."""
        return started + self.transfer_seconds + done / self.slowest
