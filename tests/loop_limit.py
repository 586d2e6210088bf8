"""Fails a test in which the server holds its event loop for too long, and prints where.

A step of a task may take `LIMIT` of processor time; all steps between two polls together, `PASS_LIMIT`: many tasks may
become ready at once with little work each, such as 58 followers of a recorder whose cluster has gone.

Only time of the server's own tasks counts, not what the test does in the same loop (`loop_holds`). A test that holds
the loop runs once more and fails if it does so again: what happens once in a process, such as the compilation of a
decoder or a cold cache, is no hold that a client can repeat. A test whose subject is a hold says so:

    @pytest.mark.holds_loop("why")
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from _pytest.runner import runtestprotocol

from tests.loop_holds import Hold, measured_run

LIMIT = 0.1  # seconds of processor time
PASS_LIMIT = 0.5


class LoopLimit:
    """A plugin of pytest."""

    def __init__(self) -> None:
        self._holds: list[Hold] = []
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
        if self._too_long() and all(each.passed for each in reports):
            first = self._holds[:]
            item._initrequest()
            reports = self._run(item, nextitem)
            if self._too_long():
                _fail(reports, [max(each, key=_longest) for each in (first, self._holds)])
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
        self._holds.clear()
        return runtestprotocol(item, log=False, nextitem=nextitem)

    def _too_long(self) -> bool:
        return any(hold.longest > LIMIT or hold.seconds > PASS_LIMIT for hold in self._holds)


def _longest(hold: Hold) -> float:
    return max(hold.longest / LIMIT, hold.seconds / PASS_LIMIT)


def _fail(reports: list[pytest.TestReport], holds: list[Hold]) -> None:
    for report in _calls(reports):
        report.outcome = "failed"
        report.longrepr = "\n".join(
            [
                f"The server held its event loop, twice, for more than {LIMIT * 1000:.0f} ms of processor time "
                f"in one step, or {PASS_LIMIT * 1000:.0f} ms in all between two polls:",
                *map(str, holds),
            ]
        )


def _calls(reports: list[pytest.TestReport]) -> Iterator[pytest.TestReport]:
    return (each for each in reports if each.when == "call")
