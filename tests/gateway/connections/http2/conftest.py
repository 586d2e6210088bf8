"""No peer, whatever it sends, makes the server log an error."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from rewound.gateway.ops import loop_watchdog


@pytest.fixture(autouse=True)
def _no_errors_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A test in which the server has to log one clears `caplog` itself. How long steps take depends on the machine."""
    yield
    assert [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.levelno >= logging.WARNING and record.name != loop_watchdog.__name__
    ] == []
