"""Ends a test that reaches its time limit so that the tests after it run as if nothing had happened.

pytest-timeout decides the limit, and this plugin sets the timer. pytest-timeout itself would raise an exception
wherever the main thread is at that moment: inside trio's own functions that leaves a run that never ends, and every
later test of the process fails with "Attempted to call run() from inside a run()". Here a test that runs trio is
cancelled by its own event loop, which ends its tasks and servers cleanly; its failure lists where every task waited.
A test without an event loop gets the exception. If neither ends the test (a call never returns), the process ends,
with the servers that it started, and pytest-xdist replaces it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

# Seconds in which a test and its fixtures must end after the time limit, on a busy machine.
GRACE = 60.0
_MAX_TASKS = 200  # in a failure


class TimeLimit:
    """A plugin of pytest. All tests of a process share one timer, SIGALRM."""

    def __init__(self) -> None:
        self._item: pytest.Item | None = None
        self._expired = ""  # the failure of the running test, if its event loop was cancelled

    @pytest.hookimpl(optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return False
        self._item = item

        def expire(*_: object) -> None:
            self._expire(f"Timeout (>{settings.timeout:g}s)")

        signal.signal(signal.SIGALRM, expire)
        signal.setitimer(signal.ITIMER_REAL, settings.timeout)
        return True

    @pytest.hookimpl(optionalhook=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> bool:
        """Called when a test has failed: limit the time of its fixtures too, unless a debugger runs."""
        if item.config.getoption("usepdb", False):
            self._disarm()
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            self._disarm()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Report the time limit even if the cancelled event loop ended without an error or with `trio.Cancelled`."""
        try:
            result = yield
        except BaseException:
            if not self._expired:
                raise
        else:
            if not self._expired:
                return result
        pytest.fail(self._expired, pytrace=False)

    def _disarm(self) -> None:
        if self._item is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            self._item, self._expired = None, ""

    def _expire(self, failure: str) -> None:
        """Handle SIGALRM, in the main thread."""
        if _is_debugged():
            return
        signal.signal(signal.SIGALRM, self._end_process)
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        try:
            loop = trio.lowlevel.current_trio_token()
        except RuntimeError:
            pytest.fail("\n".join([failure, *_stacks()]))
        self._expired = failure  # if the loop does not get to its tasks
        loop.run_sync_soon(self._cancel, failure)

    def _cancel(self, failure: str) -> None:
        """Runs in the event loop. The innermost nursery of the root task contains only the main task."""
        root = trio.lowlevel.current_root_task()
        assert root is not None
        self._expired = "\n".join([failure, *list(_waiting_tasks(root))[:_MAX_TASKS], *_stacks()])
        root.child_nurseries[-1].cancel_scope.cancel()

    def _end_process(self, *_: object) -> None:
        """Runs in a signal handler: nothing else ends this test."""
        assert self._item is not None
        capture = self._item.config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)
        print(f"\n{self._item.nodeid} does not end after its time limit: its process does", file=sys.stderr)
        print("".join(traceback.format_stack()), *_stacks(), file=sys.stderr, flush=True)
        for child in _children():
            os.kill(child, signal.SIGKILL)
        os._exit(1)


def _is_debugged() -> bool:
    from pytest_timeout import is_debugging

    return bool(is_debugging())


def _waiting_tasks(task: trio.lowlevel.Task, depth: int = 0) -> Iterator[str]:
    """Where every task waits: its functions, from the outermost one to the first of trio."""
    functions: list[str] = []
    for frame, line in task.iter_await_frames():
        functions.append(f"{frame.f_code.co_name} ({Path(frame.f_code.co_filename).name}:{line})")
        if frame.f_globals.get("__name__", "").startswith("trio."):
            break
    yield f"{'  ' * depth}{task.name}: {' > '.join(functions)}"
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _waiting_tasks(child, depth + 1)


def _stacks() -> list[str]:
    """The stacks of the other threads."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    own = threading.get_ident()
    return [
        f"Thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame)[-4:])}"
        for ident, frame in sys._current_frames().items()
        if ident != own
    ]


def _children() -> list[int]:
    """Processes that this one has started and must end. None where the system does not list them."""
    try:
        lists = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    except OSError:
        return []
    return [int(pid) for one in lists for pid in one.split()]
