"""Shared by all connections of one server: responder, limits, a coarse clock, counters, the drain flag.

The server owns it, and its watchdog updates `now`; connections read it and increment its counters. Requests read this
attribute instead of the clock, so deadlines are as coarse as the watchdog's tick; only streams, whose timeout the
client sets, end on time.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from operator import itemgetter
from typing import Protocol

import msgspec
import trio
from hypercorn.config import Config

from rewound.actors.certificates.pools import TrustPools
from rewound.gateway.connections.arriving import PartialHeads
from rewound.gateway.connections.heads import HeadFormat, Heads
from rewound.gateway.connections.limits import DRAIN_TICK, TICK, Limits
from rewound.gateway.connections.listen import Listener
from rewound.gateway.connections.responder import Handle, Refuse, Responder
from rewound.gateway.connections.transport import Transport
from rewound.gateway.connections.unauthenticated import UnauthenticatedWork
from rewound.gateway.exchange import RequestObserver
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.settings.server_config import Address

log = logging.getLogger("rewound.gateway")


class AnyServer(Protocol):
    """A server as composition uses it: `Server`, or one for which another program accepts connections."""

    @property
    def quic_address(self) -> Address | None:
        """The address for HTTP/3; None if it does not listen for it."""

    def statistics(self) -> ServerStatistics: ...

    def replace_handler(self, handle: Handle) -> None:
        """Pass requests that arrive from now on, also over existing connections, to another handler."""

    def replace_tls(self, context: ssl.SSLContext, pools: TrustPools | None) -> None:
        """Use another TLS context, and other pools, for connections that arrive from now on."""

    async def serve(
        self,
        config: Config,
        *,
        tls: ssl.SSLContext | None,
        stop: trio.Event,
        pools: TrustPools | None = None,
        task_status: trio.TaskStatus[list[Listener]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until `stop`; return when all accepted requests have their responses, or the grace period is over."""


MakeServer = Callable[[Handle, Refuse, Limits, RequestObserver | None, MemoryBudget], AnyServer]


class ServerStatistics(msgspec.Struct, frozen=True):
    open: int  # open connections
    idle: int  # of these, connections without a request in progress
    accepted: int  # connections since the start
    requests: int  # requests passed to the handler
    refused: int  # requests refused by the connection layer itself: malformed, too large, too slow
    failed: int  # requests whose handler raised
    timed_out: int  # connections ended by a time limit
    handshake_failures: int
    draining: bool
    # Of the failed handshakes, those with a client certificate that does not verify.
    certificate_failures: int = 0
    streaming: int = 0  # connections with a stream, such as a watch
    delays: int = 0  # how often unauthenticated connections had to wait for their turn


class ServerState:
    __slots__ = (
        "_heads",
        "accepted",
        "certificate_failures",
        "draining",
        "handshake_failures",
        "limits",
        "now",
        "partial_heads",
        "responder",
        "timed_out",
        "transports",
        "unauthenticated",
    )

    def __init__(
        self,
        handle: Handle,
        refuse: Refuse,
        limits: Limits,
        observer: RequestObserver | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        self.responder = Responder(handle, refuse, observer, memory)
        self.limits = limits
        self._heads: dict[HeadFormat, Heads] = {}
        self.partial_heads = PartialHeads(self.responder.memory.unauthenticated_share)
        self.unauthenticated = UnauthenticatedWork(limits.unauthenticated)
        self.transports: set[Transport] = set()
        self.now = 0.0
        self.draining = False
        self.accepted = self.timed_out = self.handshake_failures = self.certificate_failures = 0

    def heads(self, form: HeadFormat) -> Heads:
        """The heads of responses in one protocol, which all its connections share."""
        found = self._heads.get(form)
        if found is None:
            found = self._heads[form] = Heads(form)
        return found

    def tick(self) -> float:
        self.now = trio.current_time()
        for heads in self._heads.values():
            heads.tick()
        return self.now

    @property
    def period(self) -> float:
        """Seconds between two checks of the deadlines."""
        return DRAIN_TICK if self.draining else TICK

    def begin_drain(self) -> None:
        """Close idle connections at once, and apply the limits of a drain to the others, because the server stops."""
        self.draining = True
        self.unauthenticated.stop()
        self.limits = self.limits.draining()
        now = self.tick()
        for transport in self.transports:
            transport.begin_drain(self.limits, now)

    def interrupt_expired(self) -> list[tuple[float, Transport]]:
        """Interrupt every transport past its deadline; return the streams that end before the next tick, in order."""
        now = self.tick()
        near = [one for one in self.transports if one.deadline <= now + self.period]
        for transport in near:
            if transport.deadline <= now and not transport.delayed:
                self.timed_out += not transport.streaming
                transport.interrupt()
        ending = [
            (deadline, one)
            for one in near
            if one.streaming
            for deadline in ((one.deadline,) if one.deadlines is None else one.deadlines())
            if now < deadline <= now + self.period
        ]
        return sorted(ending, key=itemgetter(0))

    def statistics(self) -> ServerStatistics:
        return ServerStatistics(
            open=len(self.transports),
            idle=sum(transport.idle for transport in self.transports),
            accepted=self.accepted,
            requests=self.responder.requests,
            refused=self.responder.refused,
            failed=self.responder.failures,
            timed_out=self.timed_out,
            handshake_failures=self.handshake_failures,
            draining=self.draining,
            certificate_failures=self.certificate_failures,
            streaming=sum(transport.streaming for transport in self.transports),
            delays=self.unauthenticated.delays,
        )
