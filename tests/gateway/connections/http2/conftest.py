"""The server must not log an error, whatever a peer sends."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from rewound.gateway.ops import loop_watchdog


@pytest.fixture(autouse=True)
def _no_errors_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail after a logged warning or error; a test that expects one clears `caplog`. Slow steps are ignored."""
    yield
    assert [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.levelno >= logging.WARNING and record.name != loop_watchdog.__name__
    ] == []
