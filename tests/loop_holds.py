"""Measures how much processor time tasks of the server take between two polls of an event loop, and where.

The tests (`loop_limit`) and the complexity fuzzer (`benchmarks/attacks/growth`) use it. `measured_run` runs a loop like
`trio.run`, with a meter: an instrument that adds up the processor time of the thread, so that neither other processes
nor slow disks count. A thread looks at the stacks of the loops meanwhile: a hold has the stack at which most of it was
spent, and time below a frame of a test, in an import or in the garbage collector is not the server's.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import sleep  # of its own: tests replace `time.sleep`
from types import CodeType, FrameType
from typing import Any, Final

import msgspec
import trio

SAMPLED = 0.02  # seconds of processor time of a step, from which on its stack is looked at
INTERVAL = 0.005
CLASSIFIED = 0.0005  # shorter steps of tasks whose first function is neither ours nor a test's do not count
_ROOT: Final = Path(__file__).parents[1]
_OURS: Final = str(_ROOT / "rewound") + "/"
_TESTS: Final = (str(_ROOT / "tests") + "/", str(_ROOT / "benchmarks") + "/")
_IMPORTS: Final = "<frozen importlib"
_UNUSED = 60.0  # seconds until the thread looks again whether a loop runs
_DEEPEST = 60  # frames of a stack that are kept

Place = tuple[str, int, str]  # file, line, function
Stack = tuple[Place, ...]  # the innermost first


class Hold(msgspec.Struct, frozen=True):
    """What the steps of the server between two polls took, and the longest of them."""

    seconds: float
    longest: float
    task: str
    stack: Stack

    def __str__(self) -> str:
        lines = [f"{self.seconds * 1000:.0f} ms, of which {self.longest * 1000:.0f} ms in {self.task}"]
        return "\n".join([*lines, *(f"  {place(*each)}" for each in self.stack)])


def place(file: str, line: int, function: str) -> str:
    return f"{file.removeprefix(f'{_ROOT}/')}:{line} {function}"


class HoldMeter(trio.abc.Instrument):
    """Of one event loop, made in its thread. `ended` is called with every hold of more than `limit` seconds."""

    def __init__(self, limit: float, ended: Callable[[Hold], None], *, of_tests: bool = True) -> None:
        self._limit, self._ended = limit, ended
        self._of_tests = of_tests  # whether some of the tasks are those of a test
        self.thread = threading.get_ident()
        self.clock = time.pthread_getcpuclockid(self.thread)
        self.step_began: float | None = None
        self.samples: list[tuple[float, Stack, bool]] = []
        self._collected = 0.0
        self._pass = 0.0
        self._longest = (0.0, "", ())
        self._owners: dict[CodeType, bool | None] = {}
        self._task_owner: bool | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._task_owner = self._owner(task.coro)
        self._collected = 0.0
        self.samples.clear()
        self.step_began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        began, self.step_began = self.step_began, None
        if began is None or (owner := self._task_owner) is False:
            return
        spent = time.thread_time() - began - self._collected
        if owner is None and (spent < CLASSIFIED or not self._belongs(task)):
            return
        if self.samples:
            spent -= _of_others(began, self.samples)
        self._pass += spent
        if spent > self._longest[0]:
            self._longest = spent, task.name, _largest(began, self.samples)

    def before_io_wait(self, timeout: float) -> None:
        if self._pass > self._limit:
            self._ended(Hold(self._pass, *self._longest))
        self._pass, self._longest = 0.0, (0.0, "", ())

    def collecting(self, seconds: float) -> None:
        self._collected += seconds

    def now(self) -> float:
        return time.clock_gettime(self.clock)

    def _owner(self, coroutine: Any) -> bool | None:
        """Whether the first function of a task is ours, or a test's, or None: of a library."""
        code = getattr(coroutine, "cr_code", None)
        if code is None or not self._of_tests:
            return None if code is None else True
        try:
            return self._owners[code]
        except KeyError:
            owner = self._owners[code] = _owner_of(code.co_filename)
            return owner

    def _belongs(self, task: trio.lowlevel.Task) -> bool:
        """Whether the first function in its stack that is ours or a test's is ours."""
        for owner in map(_owner_of, _files_of(task, self.samples)):
            if owner is not None:
                return owner
        return False


def _files_of(task: trio.lowlevel.Task, samples: list[tuple[float, Stack, bool]]) -> list[str]:
    if samples:
        return [file for file, _, _ in reversed(samples[-1][1])]
    try:
        return [frame.f_code.co_filename for frame, _ in task.iter_await_frames()]
    except (AttributeError, TypeError):
        return []  # the task has ended


def _owner_of(file: str) -> bool | None:
    return True if file.startswith(_OURS) else False if file.startswith(_TESTS) else None


def _of_others(began: float, samples: list[tuple[float, Stack, bool]]) -> float:
    others, before = 0.0, began
    for at, _, ours in samples:
        if not ours:
            others += at - before
        before = at
    return others


def _largest(began: float, samples: list[tuple[float, Stack, bool]]) -> Stack:
    """The stack of the function of ours in which most of the time was spent."""
    spent: Counter[Place] = Counter()
    stacks: dict[Place, Stack] = {}
    before = began
    for at, stack, ours in samples:
        if ours:
            key = next((each for each in stack if each[0].startswith(_OURS)), stack[0])
            spent[key] += round((at - before) * 1e6)
            stacks[key] = stack
        before = at
    return stacks[spent.most_common(1)[0][0]] if spent else ()


class Sampler(threading.Thread):
    """Looks at the stacks of all loops whose step takes longer than `SAMPLED`."""

    def __init__(self) -> None:
        super().__init__(name="samples of event loops", daemon=True)
        self._meters: dict[int, HoldMeter] = {}
        self._any = threading.Event()
        self._collections: dict[int, float] = {}
        gc.callbacks.append(self._collecting)
        self.start()

    def add(self, meter: HoldMeter) -> None:
        self._meters[meter.thread] = meter
        self._any.set()

    def remove(self, meter: HoldMeter) -> None:
        self._meters.pop(meter.thread, None)
        if not self._meters:
            self._any.clear()

    def meters(self) -> list[HoldMeter]:
        return list(self._meters.values())

    def run(self) -> None:
        while True:
            if not self._any.wait(_UNUSED):
                continue
            sleep(INTERVAL)
            for meter in self.meters():
                self._look_at(meter)

    def _look_at(self, meter: HoldMeter) -> None:
        began = meter.step_began
        try:
            now = meter.now()
        except OSError:
            return  # the thread has ended
        if began is None or now - began < SAMPLED:
            return
        frame = sys._current_frames().get(meter.thread)
        if frame is not None and meter.step_began == began:
            stack, ours = _stack(frame)
            meter.samples.append((now, stack, ours))

    def _collecting(self, phase: str, _: object) -> None:
        meter = self._meters.get(threading.get_ident())
        if meter is None:
            return
        if phase == "start":
            self._collections[meter.thread] = time.thread_time()
        elif (began := self._collections.pop(meter.thread, None)) is not None:
            meter.collecting(time.thread_time() - began)


def _stack(frame: FrameType | None) -> tuple[Stack, bool]:
    """The functions above the event loop, and whether the time that passes there is the server's."""
    places: list[Place] = []
    ours = True
    while frame is not None:
        code = frame.f_code
        if code.co_name == "unrolled_run":
            break
        if code.co_filename.startswith((_IMPORTS, *_TESTS)):
            ours = False
        if len(places) < _DEEPEST:
            places.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(places), ours and frame is not None and bool(places)


run_unmeasured = trio.run
_sampler: Sampler | None = None


def meters() -> list[HoldMeter]:
    """Those of the loops that run."""
    return [] if _sampler is None else _sampler.meters()


def measured_run(limit: float, ended: Callable[[Hold], None], *, of_tests: bool = True) -> Callable[..., Any]:
    """`trio.run` with a meter."""

    def run(function: Callable[..., Any], *arguments: Any, instruments: Any = (), **options: Any) -> Any:
        global _sampler
        if _sampler is None or not _sampler.is_alive():  # as in a child process
            _sampler = Sampler()
        meter = HoldMeter(limit, ended, of_tests=of_tests)
        sampler = _sampler
        sampler.add(meter)
        try:
            return run_unmeasured(function, *arguments, instruments=[*instruments, meter], **options)
        finally:
            sampler.remove(meter)

    return run
