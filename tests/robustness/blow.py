"""The ways in which a server ends: what it is started with, and what strikes it when.

A strike is a signal at a passage of the traffic, which the fuse counts, two for each request. A failpoint
needs none: the server kills itself at a step of a commit, at the passage that the journal counts. A moment is
something that must be true of the journal, seen from outside, before SIGKILL comes.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from journal import View
from tests.robustness.fuse import Strike

SITE = "journal.append"
STEPS = ("begun", "events-written", "state-written", "before-commit", "after-commit")  # of it, in order

Moment = Callable[[View], bool]


@dataclass(frozen=True, slots=True)
class Blow:
    name: str
    failpoint: str = ""
    strikes: tuple[Strike, ...] = ()
    moment: Moment | None = None
    flags: tuple[str, ...] = ()
    codes: tuple[int, ...] = (-signal.SIGKILL,)  # how it may exit


def at_step(step: str, chance: random.Random) -> Blow:
    """Dead at a step of the n-th commit."""
    failpoint = f"{SITE}:{step}:{chance.randrange(5, 60)}"
    return Blow(f"killed at {failpoint}", failpoint)


def under_load(chance: random.Random, longest: int = 500) -> Blow:
    """Dead at a passage of the traffic, whatever the server is doing then."""
    passage = chance.randrange(20, longest)
    return Blow(f"killed at passage {passage}", strikes=((passage, signal.SIGKILL),))


def while_stopping(chance: random.Random) -> Blow:
    """SIGTERM under load, then SIGKILL: at once, or while requests are still being answered."""
    told = chance.randrange(20, 300)
    killed = told + chance.choice((0, 1, 3, 10, 40))
    delay = chance.choice(("0s", "50ms"))
    return Blow(
        f"told to stop at passage {told} with a delay of {delay}, killed at {killed}",
        strikes=((told, signal.SIGTERM), (killed, signal.SIGKILL)),
        flags=("--shutdown-delay-duration", delay),
        codes=(-signal.SIGKILL, 0),
    )


def stopped(chance: random.Random) -> Blow:
    """SIGTERM under load and nothing else: it must end well, by itself."""
    told = chance.randrange(20, 300)
    return Blow(f"told to stop at passage {told}", strikes=((told, signal.SIGTERM),), codes=(0,))


def while_compacting(floor: int) -> Blow:
    """Dead when retention has passed an offset and is still busy."""
    return Blow(f"killed when the floor had reached {floor}", moment=lambda view: view.floor >= floor)


def while_taking_snapshot(chunks: int) -> Blow:
    """Dead when so many chunks of a snapshot are written."""

    def reached(view: View) -> bool:
        written: int = view.txn.stat(view.databases.snapshots)["entries"]
        return written >= chunks

    return Blow(f"killed when {chunks} chunks of a snapshot were written", moment=reached)
