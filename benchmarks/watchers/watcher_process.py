"""Starts a watcher process, sends it commands and reads their results; the caller may do other work meanwhile.

Each watched server has its own process, so that ten thousand watchers of ours and as many of the baseline stay below
the limit of open files of one process.
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
from benchmarks.watchers.commands import (
    Assignment,
    Command,
    CommandResult,
    Deliver,
    Open,
    Release,
    encode_assignment,
    encode_command,
)

TIMEOUT = 300.0  # seconds for one command


class WatcherProcess:
    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.watchers.process_main"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._write_line(encode_assignment(assignment))

    def open(self, command: Open) -> CommandResult:
        return self.perform(command)

    def deliver(self, command: Deliver, meanwhile: Callable[[], None] | None = None) -> CommandResult:
        """Calls `meanwhile` repeatedly until the command is complete."""
        return self.perform(command, meanwhile)

    def release(self) -> CommandResult:
        return self.perform(Release())

    def perform(self, command: Command, meanwhile: Callable[[], None] | None = None) -> CommandResult:
        self._write_line(encode_command(command))
        deadline = time.perf_counter() + TIMEOUT
        while not self._has_result(0.0 if meanwhile else 1.0):
            if meanwhile is not None:
                meanwhile()
            if time.perf_counter() > deadline:
                raise LoadFailed(f"the watchers did not finish within {TIMEOUT:.0f} seconds")
        return self._read_result()

    def _write_line(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise LoadFailed(self._error_output()) from None

    def _has_result(self, wait: float) -> bool:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], wait)
        return bool(ready)

    def _read_result(self) -> CommandResult:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise LoadFailed(self._error_output())
        return CommandResult(**json.loads(line))

    def _error_output(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read().strip() or "the watcher process ended"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> WatcherProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
