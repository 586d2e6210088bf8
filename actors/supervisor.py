"""Keeps actors and controllers running: one that breaks is started again from the journal, with growing pauses.

A crash is a bug in us, never in a request (requests are answered with errors), so it is logged loudly and counted;
a task that crashes again and again makes the health check `actors` fail while the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 10.0
# A task that lived this long has recovered: its next crash begins with the first pause again.
RECOVERED_AFTER = 30.0


@dataclass(slots=True)
class Supervised:
    name: str
    restarts: int = 0
    failing: str = ""  # why it crashed last, until it has recovered


class Supervisor:
    def __init__(self) -> None:
        self._tasks: dict[str, Supervised] = {}

    def statistics(self) -> dict[str, Supervised]:
        return dict(self._tasks)

    def failing(self) -> list[str]:
        return [task.name for task in self._tasks.values() if task.failing]

    def forget(self, name: str) -> None:
        """Drop the statistics of a task that has ended for good."""
        self._tasks.pop(name, None)

    async def keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run for ever; returns only when `run` returns of its own accord."""
        task = self._tasks.setdefault(name, Supervised(name))
        pause = FIRST_PAUSE
        while True:
            started = trio.current_time()
            try:
                await run()
                return
            except Exception as error:
                logger.exception("%s crashed and will be started again", name)
                task.restarts += 1
                task.failing = f"{type(error).__name__}: {error}"
            if trio.current_time() - started > RECOVERED_AFTER:
                pause = FIRST_PAUSE
            await trio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            task.failing = ""
