"""SIGKILL at a random time of random traffic, with commits in the event loop and in a thread beside it.

The short version is in `test_kill_at_every_step`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness.termination import under_load
from tests.robustness.trial import trial


@pytest.mark.slow
def test_killed_under_load(tmp_path: Path) -> None:
    with trial(tmp_path, "under load") as one:
        for one.cluster.slow_disk in (False, True):
            one.run_until(under_load(one.rng))
        tally = one.finish()
    assert tally.acknowledged > 0
