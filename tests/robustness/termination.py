"""The ways in which a test terminates a server.

`signals` are sent at checkpoints of the traffic, which `SignalSchedule` counts, two for each request. At a
`failpoint` the server kills itself, at a step of its n-th commit. A `condition` must hold for the journal, as
another process reads it, before the test sends SIGKILL.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from rewound.journal import View
from tests.robustness.signal_schedule import ScheduledSignal

SITE = "journal.append"
STEPS = ("begun", "events-written", "state-written", "before-commit", "after-commit")  # of it, in order

Condition = Callable[[View], bool]


@dataclass(frozen=True, slots=True)
class Termination:
    name: str
    failpoint: str = ""
    signals: tuple[ScheduledSignal, ...] = ()
    condition: Condition | None = None
    flags: tuple[str, ...] = ()
    codes: tuple[int, ...] = (-signal.SIGKILL,)  # how it may exit


def at_step(step: str, rng: random.Random) -> Termination:
    """SIGKILL at a step of the n-th commit."""
    failpoint = f"{SITE}:{step}:{rng.randrange(5, 60)}"
    return Termination(f"killed at {failpoint}", failpoint)


def under_load(rng: random.Random, longest: int = 300) -> Termination:
    """SIGKILL at a checkpoint of the traffic."""
    checkpoint = rng.randrange(20, longest)
    return Termination(f"killed at checkpoint {checkpoint}", signals=((checkpoint, signal.SIGKILL),))


def while_stopping(rng: random.Random) -> Termination:
    """SIGTERM under load, then SIGKILL: at once, or while it still responds to requests."""
    stopped_at = rng.randrange(20, 300)
    killed = stopped_at + rng.choice((0, 1, 3, 10, 40))
    delay = rng.choice(("0s", "50ms"))
    return Termination(
        f"stopped at checkpoint {stopped_at} with a delay of {delay}, killed at {killed}",
        signals=((stopped_at, signal.SIGTERM), (killed, signal.SIGKILL)),
        flags=("--shutdown-delay-duration", delay),
        codes=(-signal.SIGKILL, 0),
    )


def stopped(rng: random.Random) -> Termination:
    """SIGTERM under load and nothing else: it must exit with 0."""
    stopped_at = rng.randrange(20, 300)
    return Termination(
        f"stopped at checkpoint {stopped_at}", signals=((stopped_at, signal.SIGTERM),), codes=(0,)
    )


def while_compacting(floor: int) -> Termination:
    """SIGKILL when the retention floor has reached an offset."""
    return Termination(
        f"killed when the floor had reached {floor}", condition=lambda view: view.floor >= floor
    )


def while_taking_snapshot(chunks: int) -> Termination:
    """SIGKILL when this many chunks of a snapshot are written."""

    def reached(view: View) -> bool:
        written: int = view.txn.stat(view.databases.snapshots)["entries"]
        return written >= chunks

    return Termination(f"killed when {chunks} chunks of a snapshot were written", condition=reached)
