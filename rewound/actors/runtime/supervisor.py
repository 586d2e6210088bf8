"""Restarts actors and controllers that crash, with growing pauses; each reads its state from the journal again.

A crash is a bug in the server, never in a request (requests get errors as responses), so it is logged and counted. The
health check `actors` fails until the crashed task has run for a while; the other tasks continue.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec
import trio

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 10.0
# A task that has run this long has recovered: it is healthy, and after its next crash the pauses start from the first.
RECOVERED_AFTER = 30.0


class Supervised(msgspec.Struct):
    name: str
    restarts: int = 0
    failing: str = ""  # why it last crashed; empty once it has recovered
    started: float | None = None  # when it was last started; None between a crash and the restart

    def refresh(self, now: float) -> None:
        if self.started is not None and now - self.started >= RECOVERED_AFTER:
            self.failing = ""


class Supervisor:
    def __init__(self) -> None:
        self._tasks: dict[str, Supervised] = {}

    def statistics(self) -> dict[str, Supervised]:
        now = trio.current_time()
        for task in self._tasks.values():
            task.refresh(now)
        return dict(self._tasks)

    def failing(self) -> list[str]:
        return [task.name for task in self.statistics().values() if task.failing]

    def forget(self, name: str) -> None:
        """Drop the statistics of a task that has ended for good."""
        self._tasks.pop(name, None)

    async def keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run `run`, and again whenever it raises; return when it returns."""
        task = self._tasks.setdefault(name, Supervised(name))
        pause = FIRST_PAUSE
        while True:
            started = task.started = trio.current_time()
            try:
                await run()
                task.failing = ""
                return
            except Exception as error:
                logger.exception("%s crashed and will be started again", name)
                task.restarts += 1
                task.started = None
                task.failing = f"{type(error).__name__}: {error}"
            if trio.current_time() - started >= RECOVERED_AFTER:
                pause = FIRST_PAUSE
            await trio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
