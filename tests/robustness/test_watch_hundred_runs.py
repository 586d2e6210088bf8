"""The long form: a hundred runs of random traffic under watch, each ended in another way. `make robustness` runs it.

Each trial is a folder with watchers of its own, who live through five runs of its server; a third has a watch
history, and a retention, of seconds. `REWOUND_SEED` begins another series. One line a trial tells how far it is.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.robustness import blow
from tests.robustness.blow import Blow
from tests.robustness.watch_trial import Tally, watch_trial

pytestmark = pytest.mark.slow

SEED = os.environ.get("REWOUND_SEED", "0")
TRIALS, RUNS = 20, 5
PASSAGES = 300, 3000  # of the traffic until the blow: a second or two
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
            one.live(random_blow(one.chance))
        tallies.append(one.finish())
    with capsys.disabled():
        print(f"\ntrial {number}, {history} history, {time.monotonic() - began:.0f} s: {tallies[-1]}")
        print(f"    so far with seed {SEED!r}: {sum(tallies, Tally())}", flush=True)


def random_blow(chance: random.Random) -> Blow:
    passage = chance.randrange(*PASSAGES)
    match chance.choices(["load", "step", "stopping", "stopped"], [40, 20, 15, 25]):
        case ["load"]:
            return Blow(f"killed at passage {passage}", strikes=((passage, signal.SIGKILL),))
        case ["step"]:
            return blow.at_step(chance.choice(blow.STEPS), chance)
        case ["stopping"]:
            return blow.while_stopping(chance)
        case _:
            return Blow(f"told to stop at {passage}", strikes=((passage, signal.SIGTERM),), codes=(0,))
