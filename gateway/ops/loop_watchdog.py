"""Measures how long single steps of tasks hold the event loop, and logs the request of a step that took too long.

While a task runs between two checkpoints, nobody else is served: no step should take longer than `STEP`, whatever a
client sends. The watchdog is a trio instrument, which trio calls before and after every step; together the two calls
cost about half a microsecond. A step in which the interpreter gave time to another thread counts with that time: others
waited for it all the same.

Requests cost nothing more: the request of a step is the one that its task still handles, which the variables of its
suspended coroutines show, or one that the pipeline `completed` during the step after a long time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import trio

from gateway.requests.request import Request

logger = logging.getLogger(__name__)

STEP = 0.005  # seconds that a step should not exceed
LOGGED = 0.05  # longer steps are logged
LOG_PERIOD = 1.0  # at most one line in this time; the longest step of the time since then
RECENT = 60.0  # the time over which `recent` is the longest hold
_SHOWN = 200  # characters of a request in the log


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    longest: float  # seconds, since the start
    recent: float  # within the last one or two minutes
    over_step: int  # steps that took longer than STEP
    over_logged: int  # longer than LOGGED


class LoopWatchdog(trio.abc.Instrument):
    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._began = now()
        self._longest = 0.0
        self._recent = self._before = 0.0  # of this period, and of the one before
        self._period_ends = self._began + RECENT
        self._over_step = self._over_logged = self._unlogged = 0
        self._next_line = 0.0
        self._slowest: tuple[float, Request] | None = None  # seconds, of those completed in this step
        self._slowest_ended = 0.0

    def completed(self, request: Request, seconds: float) -> None:
        """The pipeline has handled a request in this step; it calls this only if that took longer than LOGGED."""
        now = self._now()
        if self._slowest is None or self._slowest_ended < self._began or seconds > self._slowest[0]:
            self._slowest, self._slowest_ended = (seconds, request), now

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = self._now()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if (ended := self._now()) - self._began > STEP:
            self._record(task, ended - self._began, ended)

    def statistics(self) -> LoopStatistics:
        self._turn_period(self._now())
        return LoopStatistics(
            self._longest, max(self._recent, self._before), self._over_step, self._over_logged
        )

    def _record(self, task: trio.lowlevel.Task, seconds: float, now: float) -> None:
        self._turn_period(now)
        self._over_step += 1
        self._recent = max(self._recent, seconds)
        self._longest = max(self._longest, seconds)
        if seconds <= LOGGED:
            return
        self._over_logged += 1
        if now < self._next_line:
            self._unlogged += 1
            return
        self._next_line = now + LOG_PERIOD
        others = f" ({self._unlogged} more since the last such line)" if self._unlogged else ""
        self._unlogged = 0
        request = self._take_slowest() or _request_of(task)
        held_by = task.name if request is None else _describe(request)
        logger.warning("the event loop was held for %.0f ms by %s%s", seconds * 1000, held_by, others)

    def _take_slowest(self) -> Request | None:
        """The request that was completed in this step and took longest."""
        slowest, self._slowest = self._slowest, None
        return slowest[1] if slowest is not None and self._slowest_ended > self._began else None

    def _turn_period(self, now: float) -> None:
        if now >= self._period_ends:
            self._before = self._recent if now < self._period_ends + RECENT else 0.0
            self._recent = 0.0
            self._period_ends = now + RECENT


def _request_of(task: trio.lowlevel.Task) -> Request | None:
    """The request that a suspended task handles: a variable of one of its coroutines."""
    coroutine: Any = task.coro
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        request = frame.f_locals.get("request") if frame is not None else None
        if isinstance(request, Request):
            return request
        coroutine = getattr(coroutine, "cr_await", None)
    return None


def _describe(request: Request) -> str:
    target = f"{request.path}?{request.query}" if request.query else request.path
    # repr: a client chooses these characters, and the log has to stay one line.
    return f"{request.method} {target[:_SHOWN]!r}"
