"""Watchers of every kind beside random writes, while the server is killed and started again: the short form."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.robustness.blow import Blow
from tests.robustness.watch_trial import watch_trial


def test_watchers_through_a_kill_and_a_stop(tmp_path: Path) -> None:
    with watch_trial(tmp_path, "short") as one:
        one.live(Blow("killed at passage 700", strikes=((700, signal.SIGKILL),)))
        one.live(Blow("told to stop at passage 500", strikes=((500, signal.SIGTERM),), codes=(0,)))
        tally = one.finish()
    assert tally.events > 0
    print(tally)
