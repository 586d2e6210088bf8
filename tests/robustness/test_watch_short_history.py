"""Watchers beside random writes while the watch history, and retention behind it, is a matter of seconds."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.robustness.blow import Blow
from tests.robustness.watch_trial import watch_trial


def test_watchers_of_a_server_that_soon_forgets(tmp_path: Path) -> None:
    with watch_trial(tmp_path, "forgetting", 0.5, ("--journal-retention", "3s")) as one:
        one.live(Blow("killed at passage 1500", strikes=((1500, signal.SIGKILL),)))
        tally = one.finish()
    assert tally.expired > 0, "nobody was ever too old"
    print(tally)
