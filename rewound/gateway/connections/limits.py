"""The limits of the connection layer for each client: sizes, times and counts.

`Server` takes one `Limits`. Those that Hypercorn has an option for come from its configuration (`config`); no other
module of the gateway contains such a number. Times are in seconds of trio's clock. A watchdog checks them once a
second (`TICK`), so each may be exceeded by that much: one check of all connections costs less than a cancel scope per
read, which every request would pay for.

A stopping server replaces its limits by those of `draining()`, and checks them every `DRAIN_TICK`: it waits for
handlers, and for peers only as long as bytes move.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from math import inf

import msgspec
import trio
from msgspec.structs import replace

from rewound.actors.flowcontrol.leases import Holder
from rewound.gateway.connections.config import ServerConfig
from rewound.gateway.connections.unauthenticated import WorkShares

KIB = 1024
# Long enough for clients that send requests one after the other to send the next one.
_DRAIN_IDLE = 1.0
TICK = 1.0
DRAIN_TICK = 0.25


# The most memory that an idle connection takes (TLS, the cached head of its last request), and the part of the memory
# limit that all of them may use.
_CONNECTION_BYTES = 40 * KIB
_CONNECTIONS_SHARE = 1 / 4
_LEAST_CONNECTIONS = 16

# The quota shared by all workers; how many connections a worker asks for at once; and how long it waits for them
# before it closes an idle one.
CONNECTIONS = "connections"
_MORE_CONNECTIONS = 16
_MORE_SECONDS = 0.1


def affordable_connections(memory: int | None = None) -> int:
    """How many connections the limits of file descriptors and memory allow.

    Some descriptors are left for the journal, logs and webhooks.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 100_000 if soft == resource.RLIM_INFINITY else int(soft) - 128
    return max(_LEAST_CONNECTIONS, files if memory is None else min(files, connections_in(memory)))


def connections_in(memory: int) -> int:
    """How many connections a memory limit allows."""
    return max(_LEAST_CONNECTIONS, int(memory * _CONNECTIONS_SHARE / _CONNECTION_BYTES))


def _forwards_nothing(_: str) -> bool:
    return False


class AcceptShare(msgspec.Struct, frozen=True):
    """How processes that accept from the same sockets share the connections."""

    record: Callable[[int], None]  # called with the number of connections of this process when it changes
    is_ahead: Callable[[], bool]  # whether another process has fewer and so should accept the next one
    begin: trio.Event | None = None  # accept nothing before it is set, because other processes are not ready


class ConnectionLease:
    """How many of all workers' connections this process may have (`actors.flowcontrol.leases`).

    It asks for more if it has as many as it may have and another client connects. The other workers accept from the
    same sockets, so those that have room do so meanwhile.
    """

    def __init__(self, holder: Holder, most: int) -> None:
        """`most` is the most connections that the process can have."""
        self.allowed = 0
        self.open = 0
        self._most = most
        self._asks = False
        self._more = trio.Event()
        self._holder = holder
        holder.lease(CONNECTIONS).attach(self)

    def allow(self, units: int, limit: int) -> None:
        if units > self.allowed:
            self._more.set()
        self.allowed = units

    def demand(self) -> tuple[int, int, int]:
        if not self._asks:
            return self.open, self.open, 0
        return self.open, min(self.open + _MORE_CONNECTIONS, self._most), min(self.open + 1, self._most)

    async def ask(self) -> bool:
        """Ask for more connections; return whether there are more within a moment."""
        self._asks, self._more = True, trio.Event()
        self._holder.ask()
        try:
            with trio.move_on_after(_MORE_SECONDS):
                await self._more.wait()
                return True
        finally:
            self._asks = False
        return False


class Limits(msgspec.Struct, frozen=True):
    body: int = 3 * KIB * KIB
    # Whether requests to a path are forwarded: their bodies have no size limit, and they may switch protocols.
    forwards: Callable[[str], bool] = _forwards_nothing
    # Request line and headers together; a target with long selectors may be nearly all of it.
    target: int = ServerConfig.h11_max_incomplete_size
    head: int = ServerConfig.h11_max_incomplete_size
    http2_head: int = ServerConfig.h2_max_header_list_size
    headers: int = 1000

    handshake_seconds: float = ServerConfig.ssl_handshake_timeout
    head_seconds: float = 32.0  # from the first byte of a request to the end of its headers
    idle_seconds: float = ServerConfig.keep_alive_timeout
    # A body (request or response) may take this long, and longer only at or above this rate in bytes per second.
    transfer_seconds: float = 30.0
    min_bytes_per_second: int = 16 * KIB
    # How long the rest of a refused request is read and discarded, so that a reset does not destroy the response.
    linger_seconds: float = 2.0
    # A transfer that moves no byte for this long ends; only a stopping server is so strict.
    stall_seconds: float = inf
    # How long a stopping server waits for a silent peer: in a handshake, a request or a response. Together with the
    # linger after a refusal this is well below 5 s, and a peer on a bad network can still retransmit a lost packet.
    drain_seconds: float = 2.0
    drain_linger_seconds: float = 0.5
    # How long a stopping server keeps connections without a request in progress if other processes serve the same
    # clients: requests that arrive meanwhile get a response, which says that the connection ends. 0: they end at
    # once.
    drain_idle_seconds: float = 0.0

    connections: int = msgspec.field(default_factory=affordable_connections)
    share: AcceptShare | None = None  # None: no other process accepts from the same sockets
    lease: ConnectionLease | None = None  # replaces `connections` in one of several workers
    # How much unauthenticated clients may make the server do; None if its handler does not authenticate.
    unauthenticated: WorkShares | None = None
    streams: int = ServerConfig.h2_max_concurrent_streams  # HTTP/2 requests handled at once on one connection

    goaway_chance: float = 0.0  # chance that a request makes its HTTP/2 connection end gracefully

    @classmethod
    def configured(
        cls,
        config: ServerConfig,
        connections: int,
        forwards: Callable[[str], bool],
        share: AcceptShare | None = None,
        lease: ConnectionLease | None = None,
    ) -> Limits:
        return cls(
            forwards=forwards,
            target=config.h11_max_incomplete_size,
            head=config.h11_max_incomplete_size,
            http2_head=config.h2_max_header_list_size,
            handshake_seconds=config.ssl_handshake_timeout,
            idle_seconds=config.keep_alive_timeout,
            connections=connections,
            share=share,
            drain_idle_seconds=0.0 if share is None else _DRAIN_IDLE,
            lease=lease,
            unauthenticated=WorkShares(),
            streams=config.h2_max_concurrent_streams,
            goaway_chance=config.goaway_chance,
        )

    def transfer_deadline(self, started: float, done: int, moved_at: float = inf) -> float:
        """The deadline of a transfer that began at `started` and has moved `done` bytes, the last at `moved_at`."""
        return min(
            started + self.transfer_seconds + done / self.min_bytes_per_second, moved_at + self.stall_seconds
        )

    def moved_at(self, before: float, size: int, now: float) -> float:
        """When the peer was last active, after it accepted `size` bytes now.

        A few bytes count little: the kernel accepts some even for a peer that does not read.
        """
        return min(now, before + size / self.min_bytes_per_second)

    def draining(self) -> Limits:
        """Return the limits of a stopping server."""
        return replace(
            self,
            handshake_seconds=min(self.handshake_seconds, self.drain_seconds),
            head_seconds=min(self.head_seconds, self.drain_seconds),
            stall_seconds=min(self.stall_seconds, self.drain_seconds),
            linger_seconds=min(self.linger_seconds, self.drain_linger_seconds),
        )
