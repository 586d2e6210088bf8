"""Fails a test in which the server holds its event loop for too long, and prints where.

A step of a task may take `LIMIT` of processor time; all steps between two polls together, `PASS_LIMIT`: many tasks may
become ready at once with little work each, such as 58 followers of a recorder whose cluster has gone.

Only time of the server's own tasks counts, not what the test does in the same loop (`loop_holds`). A test that holds
the loop runs again, and fails if each of `RUNS` runs holds it in the same task: what happens once in a process,
such as the compilation of a decoder, is no hold that a client can repeat. On machines that others use, processor time
includes that of others, for seconds: before and after each run a piece of work whose time is known is measured, the
limits are as much longer as it took, and nothing is said about a machine that is too slow to tell.

    @pytest.mark.holds_loop("why")  # a test whose subject is a hold
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
import trio
from _pytest.runner import runtestprotocol

from tests.loop_holds import Hold, measured_run

LIMIT = 0.1  # seconds of processor time
PASS_LIMIT = 0.5
RUNS: Final = 3
PAUSE: Final = 1.0  # seconds between them
SLOWEST: Final = 4.0  # on a machine that takes so many times as long, no test fails
_KNOWN_WORK: Final = 1_000_000  # additions
_KNOWN_SECONDS: Final = 0.05  # on the machine for which docs/limits.md has figures


def slowness() -> float:
    """How many times as long a known piece of work takes now as on an idle machine; at least 1."""
    began = time.thread_time()
    total = 0
    for number in range(_KNOWN_WORK):
        total += number
    return max(1.0, (time.thread_time() - began) / _KNOWN_SECONDS)


class LoopLimit:
    """A plugin of pytest."""

    def __init__(self, slowness: Callable[[], float] = slowness) -> None:
        self._holds: list[Hold] = []
        self._slowness = slowness
        self.run = measured_run(LIMIT, self._holds.append)
        trio.run = self.run

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """pytest-trio has looked `trio.run` up before, and takes the runner of the nearest mark."""
        for item in items:
            if any(True for _ in item.iter_markers("trio")):
                item.add_marker(pytest.mark.trio(run=self.run), append=False)

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not isinstance(item, pytest.Function) or item.get_closest_marker("holds_loop"):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = self._run(item, nextitem)
        if self._holds and all(each.passed for each in reports):
            reports = self._run_again(item, nextitem, reports)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run_again(
        self, item: pytest.Function, nextitem: pytest.Item | None, reports: list[pytest.TestReport]
    ) -> list[pytest.TestReport]:
        repeated = too_long(self._holds)
        for _ in range(RUNS - 1):
            if not repeated:
                return reports
            time.sleep(PAUSE)
            before = self._slowness()
            item._initrequest()
            reports = self._run(item, nextitem)
            if not all(each.passed for each in reports):
                return reports
            slower = max(before, self._slowness())
            if slower > SLOWEST:
                return reports
            holds = too_long(self._holds, slower)
            repeated = {task: hold for task, hold in holds.items() if task in repeated}
        if repeated:
            _fail(reports, list(repeated.values()))
        return reports

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
        self._holds.clear()
        return runtestprotocol(item, log=False, nextitem=nextitem)


def too_long(holds: list[Hold], slower: float = 1.0) -> dict[str, Hold]:
    """The longest hold of each task, of those that exceed a limit."""
    longest: dict[str, Hold] = {}
    for hold in sorted(holds, key=lambda hold: hold.seconds):
        if hold.longest > LIMIT * slower or hold.seconds > PASS_LIMIT * slower:
            longest[hold.task] = hold
    return longest


def _fail(reports: list[pytest.TestReport], holds: list[Hold]) -> None:
    for report in _calls(reports):
        report.outcome = "failed"
        report.longrepr = "\n".join(
            [
                f"The server held its event loop, {RUNS} times, for more than {LIMIT * 1000:.0f} ms of processor "
                f"time in one step, or {PASS_LIMIT * 1000:.0f} ms in all between two polls:",
                *map(str, holds),
            ]
        )


def _calls(reports: list[pytest.TestReport]) -> Iterator[pytest.TestReport]:
    return (each for each in reports if each.when == "call")
