"""SIGKILL at each step of a commit, and at a random time: no acknowledged write is lost, no partial one is visible."""

from __future__ import annotations

from pathlib import Path

from tests.robustness.termination import STEPS, at_step, under_load
from tests.robustness.trial import trial


def test_killed_at_every_step_of_a_commit(tmp_path: Path) -> None:
    with trial(tmp_path, "every step") as one:
        for number, step in enumerate(STEPS):
            one.cluster.slow_disk = bool(number % 2)  # commits in a thread beside the event loop
            one.run_until(at_step(step, one.rng))
        one.run_until(under_load(one.rng))
        tally = one.finish()
    assert tally.acknowledged > 0
    print(tally)
