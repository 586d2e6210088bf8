"""Measures how long tasks hold the event loop, and logs the request that held it too long.

While tasks run between two polls of the sockets, no request is served: whatever a client sends, a task should reach a
checkpoint within `STEP`. The watchdog is a trio instrument, which trio calls before and after every poll: a busy
server polls once for many steps of tasks. Rejected: the calls before and after every step, which took 3% of a create.
Time in which another thread held the GIL, or the disk was slow, counts too, because others had to wait just the same.

The request is known when the pipeline has `completed` it: in the same pass of the loop, or later, when a write has
been committed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
import trio

from rewound.gateway.message import Request

logger = logging.getLogger(__name__)

STEP = 0.005  # seconds that a hold should not exceed
LOGGED = 0.05  # longer holds are logged
LOG_PERIOD = 1.0  # at most one line in this many seconds
RECENT = 60.0  # seconds over which `recent` is the longest hold
_SHOWN = 200  # characters of a request in a log line
# Parameters that determine how much work a request is. Others, such as a token sent by mistake or the query of a
# proxied request, may be secret, even their names.
_SHOWN_PARAMETERS = frozenset(
    {"at", "continue", "dryRun", "fieldManager", "fieldSelector", "fieldValidation", "labelSelector", "limit"}
    | {"resourceVersion", "resourceVersionMatch", "timeoutSeconds", "watch"}
)


class LoopStatistics(msgspec.Struct, frozen=True):
    longest: float  # longest hold since the start, in seconds
    recent: float  # longest hold within the last one or two minutes
    over_step: int  # holds longer than STEP
    over_logged: int  # holds longer than LOGGED


class _Hold(NamedTuple):
    seconds: float
    began: float


class LoopWatchdog(trio.abc.Instrument):
    logged: Final = LOGGED

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._began = now()
        self._longest = 0.0
        self._recent = self._before = 0.0  # of this period, and of the previous one
        self._period_ends = self._began + RECENT
        self._over_step = self._over_logged = self._unlogged = 0
        self._next_line = 0.0
        self._slowest: tuple[float, Request] | None = None  # longest of the requests completed in this pass
        self._unexplained: _Hold | None = None  # a hold was logged without a request

    def begin(self) -> None:
        """Start measuring: what the loop did before belongs to the start of the server."""
        self._began = self._now()

    def after_io_wait(self, timeout: float) -> None:
        self._began = self._now()

    def before_io_wait(self, timeout: float) -> None:
        if (ended := self._now()) - self._began > STEP:
            self._record(_Hold(ended - self._began, self._began), ended)

    def completed(self, request: Request, seconds: float) -> None:
        """Called by the pipeline after a request that took longer than LOGGED."""
        hold = self._unexplained
        if hold is not None and seconds >= hold.seconds and self._now() - seconds <= hold.began:
            self._unexplained = None
            logger.warning("it was held for %.0f ms during %s", hold.seconds * 1000, _describe(request))
        elif self._slowest is None or seconds > self._slowest[0]:
            self._slowest = seconds, request

    def statistics(self) -> LoopStatistics:
        self._turn_period(self._now())
        return LoopStatistics(
            self._longest, max(self._recent, self._before), self._over_step, self._over_logged
        )

    def _record(self, hold: _Hold, now: float) -> None:
        self._turn_period(now)
        self._over_step += 1
        self._recent = max(self._recent, hold.seconds)
        self._longest = max(self._longest, hold.seconds)
        slowest, self._slowest = self._slowest, None
        if hold.seconds <= LOGGED:
            return
        self._over_logged += 1
        if now < self._next_line:
            self._unlogged += 1
            return
        self._next_line = now + LOG_PERIOD
        others = f" ({self._unlogged} more since the last such line)" if self._unlogged else ""
        self._unlogged = 0
        self._unexplained = hold if slowest is None else None
        held_by = "" if slowest is None else f" by {_describe(slowest[1])}"
        logger.warning("the event loop was held for %.0f ms%s%s", hold.seconds * 1000, held_by, others)

    def _turn_period(self, now: float) -> None:
        if now >= self._period_ends:
            self._before = self._recent if now < self._period_ends + RECENT else 0.0
            self._recent = 0.0
            self._period_ends = now + RECENT


def _describe(request: Request) -> str:
    target = f"{request.path}?{_shown_query(request.query)}" if request.query else request.path
    # repr, because a client chooses these characters and the log entry must stay one line.
    return f"{request.method} {target[:_SHOWN]!r}"


def _shown_query(query: str) -> str:
    pairs = query.split("&")
    shown = [one for one in pairs if one.partition("=")[0] in _SHOWN_PARAMETERS]
    return "&".join(shown if len(shown) == len(pairs) else [*shown, "..."])
