"""Shows on stderr what a command is doing, once that takes longer than two seconds.

On a terminal it is one line, which is rewritten and removed at the end; elsewhere (a log of CI) a plain line after two
seconds and every ten seconds after that:

    verify  ########----------------  33%  330,000 of 1,000,000  14s left
    rewound: verify: 330,000 of 1,000,000 (33%), 14s left

A thread updates the line, so that work which does not report for a while is shown too. Wrap only the work, not what is
printed after it:

    with Progress("import") as progress:
        restore(stream, folder, progress)               # calls progress(done, total)
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

DELAY = 2.0  # seconds before anything is shown
INTERVAL = 0.2  # seconds between two updates on a terminal
LINES = 10.0  # seconds between two plain lines
WIDTH = 24


class Progress:
    """Call it with the amount done, and the total if it has changed; `step` begins another piece of work."""

    def __init__(
        self,
        label: str,
        total: int = 0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._terminal = self._stream.isatty()
        self._label, self.total, self._done = label, total, 0
        self._step_began = clock()
        self._next = self._step_began + DELAY
        self._shown = False
        self._lock = threading.Lock()  # one line is written at a time
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Show nothing more: the work is done, or now runs until it is interrupted."""
        self._ended.set()
        self._thread.join()
        if self._shown and self._terminal:
            self._write("\r\x1b[K")
        self._shown = False

    def __call__(self, done: int, total: int | None = None) -> None:
        if total is not None:
            self.total = total
        self._done = done
        if self._clock() >= self._next and not self._ended.is_set():
            self.show()

    def step(self, label: str, done: int = 0, total: int = 0) -> None:
        """Begin a step; called again with the same label, it only updates the progress."""
        if label != self._label:
            self._label, self._step_began = label, self._clock()
        self(done, total)

    def show(self) -> None:
        """Write the progress, if it is time to."""
        with self._lock:
            now = self._clock()
            if now < self._next:
                return
            self._next = now + (INTERVAL if self._terminal else LINES)
            self._shown = True
            passed = now - self._step_began
            self._write(f"\r{self._bar(passed)}\x1b[K" if self._terminal else f"{self._line(passed)}\n")

    def _tick(self) -> None:
        while not self._ended.wait(INTERVAL):
            self.show()

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._next = float("inf")  # stderr is closed: the work goes on

    def _bar(self, passed: float) -> str:
        if not self.total:
            return f"{self._label}  {self._counted()}{written(passed)}"
        filled = round(self._share * WIDTH)
        bar = "#" * filled + "-" * (WIDTH - filled)
        left = self._left(passed)
        return (
            f"{self._label}  {bar} {self._share:4.0%}  {self._done:,} of {self.total:,}{left and f'  {left}'}"
        )

    def _line(self, passed: float) -> str:
        if not self.total:
            return f"rewound: {self._label}: {self._counted()}{written(passed)}"
        left = self._left(passed)
        done = f"{self._done:,} of {self.total:,} ({self._share:.0%})"
        return f"rewound: {self._label}: {done}{left and f', {left}'}"

    @property
    def _share(self) -> float:
        return min(1.0, self._done / self.total)

    def _counted(self) -> str:
        return f"{self._done:,}, " if self._done else ""

    def _left(self, passed: float) -> str:
        share = self._share
        return f"{written(passed / share - passed)} left" if 0 < share < 1 else ""


def written(seconds: float) -> str:
    """9s, 2m05s or 1h02m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"
