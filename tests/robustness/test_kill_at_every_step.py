"""kill -9 at each step of a commit: nothing that was acknowledged is lost, nothing half done is there."""

from __future__ import annotations

from pathlib import Path

from tests.robustness.blow import STEPS, at_step
from tests.robustness.trial import trial


def test_killed_at_every_step_of_a_commit(tmp_path: Path) -> None:
    with trial(tmp_path, "every step") as one:
        for step in STEPS:
            one.live(at_step(step, one.chance))
        tally = one.finish()
    assert tally.acknowledged > 0
    print(tally)
