"""Fixtures of all tests of the whole server."""

from __future__ import annotations

import pytest

from rewound.gateway.connections import limits


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn off the delay of unauthenticated requests, which has separate tests."""
    monkeypatch.setattr(limits, "WorkShares", lambda: None)
