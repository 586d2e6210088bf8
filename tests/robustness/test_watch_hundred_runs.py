"""The long version: a hundred runs of random traffic with watchers, each terminated in another way. `make robustness`
runs it.

Each trial is one folder whose watchers stay through five runs of its server; a third has a watch history, and a
retention, of seconds. `REWOUND_SEED` chooses another series. Each trial prints its totals.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.robustness import termination as termination
from tests.robustness.termination import Termination
from tests.robustness.watch_trial import Tally, watch_trial

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # on a busy machine

SEED = os.environ.get("REWOUND_SEED", "0")
TRIALS, RUNS = 20, 5
CHECKPOINTS = 300, 3000  # of the traffic until the server is terminated: a second or two
HISTORIES = {
    "long": (300.0, ("--journal-retention", "0")),
    "short": (3.0, ("--journal-retention", "5s")),
    "shortest": (1.0, ("--journal-retention", "3s")),
}


@pytest.fixture(scope="module")
def tallies() -> list[Tally]:
    return []


@pytest.mark.parametrize("number", range(TRIALS))
def test_five_runs(
    tmp_path: Path, number: int, tallies: list[Tally], capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    history = ("long", "long", "long", "long", "short", "shortest")[number % 6]
    with watch_trial(tmp_path, f"{SEED} watches {number}", *HISTORIES[history]) as one:
        for _ in range(RUNS):
            one.run_until(random_termination(one.rng))
        tallies.append(one.finish())
    with capsys.disabled():
        print(f"\ntrial {number}, {history} history, {time.monotonic() - began:.0f} s: {tallies[-1]}")
        print(f"    so far with seed {SEED!r}: {sum(tallies, Tally())}", flush=True)


def random_termination(rng: random.Random) -> Termination:
    checkpoint = rng.randrange(*CHECKPOINTS)
    match rng.choices(["load", "step", "stopping", "stopped"], [40, 20, 15, 25]):
        case ["load"]:
            return Termination(f"killed at checkpoint {checkpoint}", signals=((checkpoint, signal.SIGKILL),))
        case ["step"]:
            return termination.at_step(rng.choice(termination.STEPS), rng)
        case ["stopping"]:
            return termination.while_stopping(rng)
        case _:
            return Termination(
                f"stopped at checkpoint {checkpoint}", signals=((checkpoint, signal.SIGTERM),), codes=(0,)
            )
