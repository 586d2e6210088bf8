"""Counts the lines of Python that each step of a task runs: how long it holds the event loop, on any machine.

Processor time depends on the machine and on what runs beside a test. The number of lines in a loop over what a user
sized does not. Lines of the server only count, in tasks that are not the test's.

    with counted_steps() as steps:
        await do_something()
    assert steps.longest.lines < 20_000, steps.longest
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec
import trio

_ROOT: Final = Path(__file__).parents[1]
_OURS: Final = str(_ROOT / "rewound") + "/"
_TESTS: Final = str(_ROOT / "tests") + "/"

Trace = Callable[[FrameType, str, Any], Any]


class Step(msgspec.Struct, frozen=True):
    lines: int = 0
    task: str = ""
    function: str = ""  # in which most of them were


class Steps(trio.abc.Instrument):
    def __init__(self) -> None:
        self.longest = Step()
        self._lines: dict[str, int] = {}
        self._counts = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        code = getattr(task.coro, "cr_code", None)
        self._counts = code is not None and not code.co_filename.startswith(_TESTS)
        self._lines.clear()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        lines = sum(self._lines.values())
        if self._counts and lines > self.longest.lines:
            self.longest = Step(lines, task.name, max(self._lines, key=self._lines.__getitem__))
        self._counts = False

    def trace(self, frame: FrameType, event: str, argument: Any) -> Trace | None:
        """For calls; the function that it returns is called for the lines of the frame."""
        file = frame.f_code.co_filename
        if not self._counts or not file.startswith(_OURS):
            return None
        name, lines = f"{file.removeprefix(_OURS)} {frame.f_code.co_qualname}", self._lines

        def count(frame: FrameType, event: str, argument: Any) -> Trace:
            lines[name] = lines.get(name, 0) + 1
            return count

        return count


class Lines:
    count = 0

    def trace(self, frame: FrameType, event: str, argument: Any) -> Trace | None:
        if event == "line":
            self.count += 1
        return self.trace if frame.f_code.co_filename.startswith(_OURS) else None


@contextmanager
def counted_lines() -> Iterator[Lines]:
    """Count those of the server in this thread, in all steps together."""
    lines, before = Lines(), sys.gettrace()
    sys.settrace(lines.trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


@contextmanager
def counted_steps() -> Iterator[Steps]:
    """Count in this thread, until the block ends."""
    steps, before = Steps(), sys.gettrace()
    trio.lowlevel.add_instrument(steps)
    sys.settrace(steps.trace)
    try:
        yield steps
    finally:
        sys.settrace(before)
        trio.lowlevel.remove_instrument(steps)
