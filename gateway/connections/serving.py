"""What all connections of one server share: handler, limits, a coarse clock, counters, the drain flag.

The server owns it and its watchdog moves `now`; connections read it and count into it. Reading an attribute
instead of the clock for each request is why deadlines are as coarse as the watchdog's tick; only streams, whose
end the client sets, end on time.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from operator import itemgetter

import trio

from gateway.connections.heads import CLOSE, Heads
from gateway.connections.limits import TICK, Limits
from gateway.connections.link import Link
from gateway.requests.observer import RequestObserver
from gateway.requests.request import Request, Response

log = logging.getLogger("rewound.gateway")

Handle = Callable[[Request], Awaitable[Response]]
Refuse = Callable[[int, str], Response]


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    open: int  # connections now
    idle: int  # of them, with no request under way
    accepted: int  # connections since the start
    requests: int  # handed to the handler
    refused: int  # answered by the connection layer itself: malformed, too large, too slow
    failed: int  # the handler raised
    timed_out: int  # connections ended by a time limit
    handshake_failures: int
    draining: bool
    streaming: int = 0  # connections whose answer has no end, as that of a watch


class Serving:
    __slots__ = (
        "accepted",
        "draining",
        "failed",
        "handle",
        "handshake_failures",
        "heads",
        "limits",
        "links",
        "now",
        "observer",
        "refuse",
        "refused",
        "requests",
        "timed_out",
    )

    def __init__(
        self, handle: Handle, refuse: Refuse, limits: Limits, observer: RequestObserver | None = None
    ) -> None:
        self.handle = handle
        self.refuse = refuse
        self.limits = limits
        self.observer = observer
        self.heads = Heads()
        self.links: set[Link] = set()
        self.now = 0.0
        self.draining = False
        self.accepted = self.requests = self.refused = self.failed = 0
        self.timed_out = self.handshake_failures = 0

    async def answer(self, request: Request) -> Response:
        """The handler's response. `http1` repeats these lines in its loop, to save a coroutine a request."""
        self.requests += 1
        try:
            return await self.handle(request)
        except Exception as error:
            return self.failure(request, error)

    def failure(self, request: Request, error: Exception) -> Response:
        """The handler raised: a 500, with the traceback in the log."""
        self.failed += 1
        if request.exchange is not None:
            request.exchange.panic(error)
        log.exception("%s %s failed", request.method, request.path)
        return self.refuse(500, "the server failed to handle the request; its log says why")

    def closing_bytes(self, response: Response) -> bytes:
        """A response as the last bytes of an HTTP/1.1 connection."""
        return b"".join(self.heads.render("", response, CLOSE))

    def refusal(self, status: int, message: str) -> Response:
        self.refused += 1
        return self.refuse(status, message)

    def tick(self) -> float:
        self.now = trio.current_time()
        self.heads.tick()
        return self.now

    def sweep(self) -> list[tuple[float, Link]]:
        """Interrupt every link whose time is up; returns the streams that end before the next tick, soonest first."""
        now = self.tick()
        near = [link for link in self.links if link.deadline <= now + TICK]
        for link in near:
            if link.deadline <= now:
                self.timed_out += not link.streaming
                link.interrupt()
        ending = [(link.deadline, link) for link in near if link.streaming and link.deadline > now]
        return sorted(ending, key=itemgetter(0))

    def statistics(self) -> ServerStatistics:
        return ServerStatistics(
            open=len(self.links),
            idle=sum(link.idle for link in self.links),
            accepted=self.accepted,
            requests=self.requests,
            refused=self.refused,
            failed=self.failed,
            timed_out=self.timed_out,
            handshake_failures=self.handshake_failures,
            draining=self.draining,
            streaming=sum(link.streaming for link in self.links),
        )
