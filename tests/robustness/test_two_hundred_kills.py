"""The long version: two hundred kills, with every kind of termination. `make robustness` runs it.

Each trial is one folder whose server is killed ten times, every third with commits in a thread; the trials of
compaction and snapshots begin with many old events. `REWOUND_SEED` chooses another series. Each trial prints its
totals.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.robustness import termination as termination
from tests.robustness.backlog import write_backlog
from tests.robustness.trial import FORGET, KEEP, Tally, Trial, trial

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # on a busy machine

SEED = os.environ.get("REWOUND_SEED", "0")
TRIALS, KILLS = 18, 10
MAX_CHECKPOINT = 3000  # under load: some seconds
COMPACTIONS, SNAPSHOTS = 15, 5

Report = Callable[[Tally], None]


@pytest.fixture(scope="module")
def tallies() -> list[Tally]:
    return []


@pytest.fixture
def report(
    tallies: list[Tally], capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> Report:
    began = time.monotonic()

    def add(tally: Tally) -> None:
        tallies.append(tally)
        with capsys.disabled():
            print(f"\n{request.node.name}, {time.monotonic() - began:.0f} s: {tally}")
            print(f"    so far with seed {SEED!r}: {sum(tallies, Tally())}", flush=True)

    return add


@pytest.mark.parametrize("number", range(TRIALS))
def test_ten_kills(tmp_path: Path, number: int, report: Report) -> None:
    with trial(tmp_path, f"{SEED} trial {number}", KEEP) as one:
        one.cluster.slow_disk = number % 3 == 2
        while one.kills < KILLS:
            kill_randomly(one)
        report(one.finish())


def kill_randomly(one: Trial) -> None:
    rng = one.rng
    match rng.choices(["step", "load", "stopping", "stopped", "starting"], [40, 30, 10, 5, 15]):
        case ["step"]:
            one.run_until(termination.at_step(rng.choice(termination.STEPS), rng))
        case ["load"]:
            one.run_until(termination.under_load(rng, MAX_CHECKPOINT))
        case ["stopping"]:
            one.run_until(termination.while_stopping(rng))
        case ["stopped"]:
            one.run_until(termination.stopped(rng))
        case ["starting"]:
            one.kill_start(rng.random())


def test_kills_while_compacting(tmp_path: Path, report: Report) -> None:
    """Retention compacts many old events and is killed repeatedly."""
    events = 2000 * COMPACTIONS
    with trial(tmp_path, f"{SEED} compacting", FORGET) as one:
        write_backlog(one.cluster.journal, events=events, objects=500)
        for number in range(COMPACTIONS):
            one.run_until(termination.while_compacting(2000 * number + one.rng.randrange(1, 2000)))
        report(one.finish())


def test_kills_while_taking_a_snapshot(tmp_path: Path, report: Report) -> None:
    """A snapshot of twenty chunks is interrupted repeatedly; the last one finishes and compaction begins."""
    with trial(tmp_path, f"{SEED} snapshot", FORGET) as one:
        write_backlog(one.cluster.journal, events=100_000, objects=20_000)
        for _ in range(SNAPSHOTS - 1):
            one.run_until(termination.while_taking_snapshot(one.rng.randrange(1, 20)))
        one.run_until(termination.while_compacting(1))
        report(one.finish())
