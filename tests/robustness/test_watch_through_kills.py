"""Watchers of every kind receive random writes while the server is killed and restarted: the short version."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.robustness.termination import Termination
from tests.robustness.watch_trial import watch_trial


def test_watchers_resume_after_kill_and_stop(tmp_path: Path) -> None:
    with watch_trial(tmp_path, "short") as one:
        one.run_until(Termination("killed at checkpoint 60", signals=((60, signal.SIGKILL),)))
        one.run_until(Termination("stopped at checkpoint 40", signals=((40, signal.SIGTERM),), codes=(0,)))
        tally = one.finish()
    assert tally.events > 0
    print(tally)
