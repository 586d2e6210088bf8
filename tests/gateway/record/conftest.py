"""Commits run in the thread of the event loop, even on a slow machine: virtual time does not wait for threads."""

import math

import pytest


@pytest.fixture(autouse=True)
def commits_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.store.slow_disk.SLOW_COMMIT", math.inf)
