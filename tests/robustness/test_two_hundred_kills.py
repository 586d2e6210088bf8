"""The long form: two hundred kills, of every way a server can end. `make robustness` runs it.

Each trial is a folder that lives through ten deaths, every third with commits in a thread; those about
housekeeping have a long past. `REWOUND_SEED` begins another series. One line a trial tells how far it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.robustness import blow
from tests.robustness.backlog import write_backlog
from tests.robustness.trial import FORGET, KEEP, Tally, Trial, trial

pytestmark = pytest.mark.slow

SEED = os.environ.get("REWOUND_SEED", "0")
TRIALS, KILLS = 18, 10
LONGEST = 3000  # passages under load: some seconds
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

    def tell(tally: Tally) -> None:
        tallies.append(tally)
        with capsys.disabled():
            print(f"\n{request.node.name}, {time.monotonic() - began:.0f} s: {tally}")
            print(f"    so far with seed {SEED!r}: {sum(tallies, Tally())}", flush=True)

    return tell


@pytest.mark.parametrize("number", range(TRIALS))
def test_ten_kills(tmp_path: Path, number: int, report: Report) -> None:
    with trial(tmp_path, f"{SEED} trial {number}", KEEP) as one:
        one.cluster.slow_disk = number % 3 == 2
        while one.kills < KILLS:
            kill_somehow(one)
        report(one.finish())


def kill_somehow(one: Trial) -> None:
    chance = one.chance
    match chance.choices(["step", "load", "stopping", "stopped", "starting"], [40, 30, 10, 5, 15]):
        case ["step"]:
            one.live(blow.at_step(chance.choice(blow.STEPS), chance))
        case ["load"]:
            one.live(blow.under_load(chance, LONGEST))
        case ["stopping"]:
            one.live(blow.while_stopping(chance))
        case ["stopped"]:
            one.live(blow.stopped(chance))
        case ["starting"]:
            one.kill_start(chance.random())


def test_kills_while_compacting(tmp_path: Path, report: Report) -> None:
    """Retention works its way through a long past, killed again and again."""
    events = 2000 * COMPACTIONS
    with trial(tmp_path, f"{SEED} compacting", FORGET) as one:
        write_backlog(one.cluster.journal, events=events, objects=500)
        for number in range(COMPACTIONS):
            one.live(blow.while_compacting(2000 * number + one.chance.randrange(1, 2000)))
        report(one.finish())


def test_kills_while_taking_a_snapshot(tmp_path: Path, report: Report) -> None:
    """A snapshot of twenty chunks, begun again and again; the last time it is finished and compaction begins."""
    with trial(tmp_path, f"{SEED} snapshot", FORGET) as one:
        write_backlog(one.cluster.journal, events=100_000, objects=20_000)
        for _ in range(SNAPSHOTS - 1):
            one.live(blow.while_taking_snapshot(one.chance.randrange(1, 20)))
        one.live(blow.while_compacting(1))
        report(one.finish())
