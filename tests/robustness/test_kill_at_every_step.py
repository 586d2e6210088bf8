"""SIGKILL at each step of a commit: no acknowledged write is lost, and no partial write is visible."""

from __future__ import annotations

from pathlib import Path

from tests.robustness.termination import STEPS, at_step
from tests.robustness.trial import trial


def test_killed_at_every_step_of_a_commit(tmp_path: Path) -> None:
    with trial(tmp_path, "every step") as one:
        for step in STEPS:
            one.run_until(at_step(step, one.rng))
        tally = one.finish()
    assert tally.acknowledged > 0
    print(tally)
