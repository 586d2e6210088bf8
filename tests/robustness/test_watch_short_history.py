"""Watchers receive random writes while watch history and retention are only seconds long."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.robustness.termination import Termination
from tests.robustness.watch_trial import watch_trial


@pytest.mark.slow
def test_watchers_with_half_a_second_of_history(tmp_path: Path) -> None:
    with watch_trial(tmp_path, "forgetting", 0.5, ("--journal-retention", "10s")) as one:
        one.run_until(Termination("killed at checkpoint 800", signals=((800, signal.SIGKILL),)))
        tally = one.finish()
    assert tally.expired > 0, "no watch got 410"
    print(tally)
