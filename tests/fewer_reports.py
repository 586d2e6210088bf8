"""Workers of pytest-xdist send one report for a passed test instead of three, and none when it starts.

Sending and reading a message takes both processes longer than many tests take, and nobody looks at the report of a
setup or a teardown that passed. All are sent if the command line wants durations, an XML file, or every test by name.
"""

from __future__ import annotations

from typing import Any

import pytest


def send_fewer_reports(config: pytest.Config) -> None:
    """Reduce the reports of a worker; call it in `pytest_configure`. It has no effect in other processes."""
    sender = next((one for one in config.pluginmanager.get_plugins() if _sends_reports(one)), None)
    if sender is None or _wants_all(config.option):
        return
    config.pluginmanager.unregister(sender)
    sender.__class__ = fewer(type(sender))
    config.pluginmanager.register(sender)


def fewer(sender: type[Any]) -> type[Any]:
    """The class of xdist, without some of the messages."""

    class Fewer(sender):  # type: ignore[misc]
        @pytest.hookimpl
        def pytest_runtest_logstart(self) -> None:
            return

        @pytest.hookimpl
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.when == "call" or not report.passed:
                super().pytest_runtest_logreport(report)

    return Fewer


def _sends_reports(plugin: object) -> bool:
    return type(plugin).__name__ == "WorkerInteractor"


def _wants_all(option: Any) -> bool:
    wants_durations = getattr(option, "durations", None) is not None
    return wants_durations or bool(getattr(option, "xmlpath", None)) or option.verbose > 0
