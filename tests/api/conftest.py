"""What tests of the whole server have in common."""

from __future__ import annotations

import pytest

from rewound.gateway.connections import limits


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that send many requests without a user do not wait: the delays have tests of their own."""
    monkeypatch.setattr(limits, "WorkShares", lambda: None)
