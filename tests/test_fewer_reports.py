"""A worker reports only the call of a test that passes; of any other test, everything that did not pass."""

from __future__ import annotations

import pytest

from tests.fewer_reports import fewer


class Sender:
    """Stands in for the class of pytest-xdist."""

    def __init__(self) -> None:
        self.sent: list[tuple[str | None, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.sent.append((report.when, report.outcome))


def test_worker_sends_no_reports_of_passed_setups_and_teardowns() -> None:
    sender = fewer(Sender)()
    for outcome in ("passed", "skipped", "failed"):
        for when in ("setup", "call", "teardown"):
            sender.pytest_runtest_logreport(
                pytest.TestReport("a", ("a.py", 1, "a"), {}, outcome, None, when)  # type: ignore[arg-type]
            )
    phases = ("setup", "call", "teardown")
    assert sender.sent == [
        ("call", "passed"),
        *((when, "skipped") for when in phases),
        *((when, "failed") for when in phases),
    ]
