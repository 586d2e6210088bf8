"""A progress bar on stderr, on a terminal only, removed when the work is done.

    verify  ########------------  41%  410,000 of 1,000,000  7.2s left

Short work shows none.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from gateway.cli.journal.query.times import span

WIDTH = 24
DELAY = 0.4  # seconds before a bar appears
INTERVAL = 0.1  # seconds between two updates


class Progress:
    """Call it with the amount done. As a context manager it clears the line."""

    def __init__(
        self,
        label: str,
        total: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label, self.total = label, total
        self._stream, self._clock = stream or sys.stderr, clock
        self._enabled = self._stream.isatty()
        self._began = clock()
        self._next = self._began + DELAY
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: int) -> None:
        now = self._clock()
        if self._enabled and now >= self._next:
            self._next = now + INTERVAL
            self._shown = True
            self._stream.write(f"\r{self._bar(done, now - self._began)}\x1b[K")
            self._stream.flush()

    def _bar(self, done: int, passed: float) -> str:
        share = min(1.0, done / self.total) if self.total else 1.0
        filled = round(share * WIDTH)
        left = f"  {span(passed / share - passed)} left" if 0 < share < 1 else ""
        bar = "#" * filled + "-" * (WIDTH - filled)
        return f"{self._label}  {bar} {share:4.0%}  {done:,} of {self.total:,}{left}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
