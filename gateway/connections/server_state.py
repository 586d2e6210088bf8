"""What all connections of one server share: handler, limits, a coarse clock, counters, the drain flag.

The server owns it and its watchdog updates `now`; connections read it and increment its counters. Requests read this
attribute instead of the clock, so deadlines are as coarse as the watchdog's tick; only streams, whose timeout the
client sets, end on time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import trio

from actors.errors import RequestError
from gateway.connections.heads import CLOSE, Heads
from gateway.connections.limits import DRAIN_TICK, TICK, Limits
from gateway.connections.parsing.partial_heads import PartialHeads
from gateway.connections.transport import Transport
from gateway.memory.budget import NO_LIMIT, MemoryBudget
from gateway.message import Request, Response
from gateway.observer import RequestObserver, observing

log = logging.getLogger("rewound.gateway")

Handle = Callable[[Request], Coroutine[Any, Any, Response]]
Refuse = Callable[[int, str], Response]


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    open: int  # connections now
    idle: int  # of these, with no request in progress
    accepted: int  # connections since the start
    requests: int  # passed to the handler
    refused: int  # refused by the connection layer itself: malformed, too large, too slow
    failed: int  # the handler raised
    timed_out: int  # connections ended by a time limit
    handshake_failures: int
    draining: bool
    certificate_failures: int = (
        0  # of the failed handshakes, those with a client certificate that does not verify
    )
    streaming: int = 0  # connections with a stream, such as a watch


class ServerState:
    __slots__ = (
        "accepted",
        "certificate_failures",
        "draining",
        "failed",
        "handle",
        "handshake_failures",
        "heads",
        "limits",
        "memory",
        "now",
        "observe",
        "partial_heads",
        "refuse",
        "refused",
        "requests",
        "timed_out",
        "transports",
    )

    def __init__(
        self,
        handle: Handle,
        refuse: Refuse,
        limits: Limits,
        observer: RequestObserver | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        self.handle = handle
        self.refuse = refuse
        self.limits = limits
        self.observe = observing(observer)
        self.memory = memory or MemoryBudget(NO_LIMIT)
        self.heads = Heads()
        self.partial_heads = PartialHeads(self.memory.strangers_share)
        self.transports: set[Transport] = set()
        self.now = 0.0
        self.draining = False
        self.accepted = self.requests = self.refused = self.failed = 0
        self.timed_out = self.handshake_failures = self.certificate_failures = 0

    def failure(self, request: Request, error: Exception) -> Response:
        """Return a 500 for a handler that raised, and log the traceback."""
        self.failed += 1
        if request.exchange is not None:
            request.exchange.panic(error)
        log.exception("%s %s failed", request.method, request.path)
        return self.refuse(500, "the server failed to handle the request; its log says why")

    def cut_off(self, request: Request, error: BaseException) -> None:
        """The rest of a response could not be produced, so its client does not get the end of it: log why."""
        cause = error.__cause__ or error
        if isinstance(cause, RequestError):
            log.warning("%s %s was cut off: %s", request.method, request.path, cause)
            return
        self.failed += 1
        if request.exchange is not None:
            request.exchange.panic(cause)
        log.error("%s %s was cut off", request.method, request.path, exc_info=cause)

    def closing_bytes(self, response: Response) -> bytes:
        """Return a response as the last bytes of an HTTP/1.1 connection."""
        return b"".join(self.heads.render("", response, CLOSE))

    def refusal(self, status: int, message: str) -> Response:
        self.refused += 1
        return self.refuse(status, message)

    def tick(self) -> float:
        self.now = trio.current_time()
        self.heads.tick()
        return self.now

    @property
    def period(self) -> float:
        """Seconds between two checks of the deadlines."""
        return DRAIN_TICK if self.draining else TICK

    def begin_drain(self) -> None:
        """The server stops: close idle connections at once, and wait for other peers by the limits of a drain."""
        self.draining = True
        self.limits = self.limits.draining()
        now = self.tick()
        for transport in self.transports:
            transport.begin_drain(self.limits, now)

    def interrupt_expired(self) -> list[tuple[float, Transport]]:
        """Interrupt every transport past its deadline; returns the streams that end before the next tick, in order."""
        now = self.tick()
        near = [one for one in self.transports if one.deadline <= now + self.period]
        for transport in near:
            if transport.deadline <= now:
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
            requests=self.requests,
            refused=self.refused,
            failed=self.failed,
            timed_out=self.timed_out,
            handshake_failures=self.handshake_failures,
            draining=self.draining,
            certificate_failures=self.certificate_failures,
            streaming=sum(transport.streaming for transport in self.transports),
        )
