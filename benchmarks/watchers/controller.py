"""A watching process as the harness holds it: give an order, do something meanwhile if need be, take the account.

A process of its own for each server that is watched, so that ten thousand watchers of ours and as many of the floor
fit under one limit of open files each.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType

from benchmarks.loads.job import LoadFailed
from benchmarks.options import ROOT
from benchmarks.watchers.requests import (
    Assignment,
    Close,
    Deliver,
    Done,
    Open,
    Order,
    Release,
    encode_assignment,
    encode_order,
)

PATIENCE = 300.0  # seconds for one order


class Audience:
    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.watchers.process"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._say(encode_assignment(assignment))

    def open(self, order: Open) -> Done:
        return self.perform(order)

    def deliver(self, order: Deliver, meanwhile: Callable[[], None] | None = None) -> Done:
        """`meanwhile` is called again and again until the order is done."""
        return self.perform(order, meanwhile)

    def release(self) -> Done:
        return self.perform(Release())

    def leave(self) -> Done:
        return self.perform(Close())

    def perform(self, order: Order, meanwhile: Callable[[], None] | None = None) -> Done:
        self._say(encode_order(order))
        deadline = time.perf_counter() + PATIENCE
        while not self._has_answered(0.0 if meanwhile else 1.0):
            if meanwhile is not None:
                meanwhile()
            if time.perf_counter() > deadline:
                raise LoadFailed(f"the watchers were not done after {PATIENCE:.0f} seconds")
        return self._answer()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise LoadFailed(self._last_words()) from None

    def _has_answered(self, wait: float) -> bool:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], wait)
        return bool(ready)

    def _answer(self) -> Done:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise LoadFailed(self._last_words())
        return Done(**json.loads(line))

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read().strip() or "the watching process ended"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Audience:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
