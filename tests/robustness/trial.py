"""One data folder through many deaths: start, look, load, kill, read the journal; at the end, judge.

The seed decides everything that a test can decide. A failure of any kind names it.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from journal import Journal
from tests.robustness.asking import ask_page
from tests.robustness.blow import Blow, Moment
from tests.robustness.client import Client
from tests.robustness.cluster import Cluster, DidNotStart
from tests.robustness.fuse import Fuse
from tests.robustness.history import History, Life, Walk
from tests.robustness.ledger import read_ledger
from tests.robustness.memory import Memory
from tests.robustness.objects import KINDS, OURS, key_of
from tests.robustness.traffic import Traffic
from tests.robustness.validate import validate

# Old versions must stay for the validators, unless a trial is about their going.
KEEP = ("--journal-retention", "0")
# Both horizons so short that housekeeping finds work with its first look.
FORGET = ("--watch-history", "1s", "--journal-retention", "2s")
_GLANCE_EVERY = 0.001


@dataclass(frozen=True, slots=True)
class Tally:
    kills: int = 0
    requests: int = 0
    acknowledged: int = 0
    unanswered: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.kills + other.kills,
            self.requests + other.requests,
            self.acknowledged + other.acknowledged,
            self.unanswered + other.unanswered,
        )

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.requests} requests, {self.acknowledged} writes acknowledged, "
            f"{self.unanswered} requests without an answer"
        )


class Trial:
    def __init__(self, cluster: Cluster, seed: str, flags: tuple[str, ...] = KEEP) -> None:
        self.cluster = cluster
        self.seed = seed
        self.chance = random.Random(seed)
        self.history = History()
        self._flags = flags
        self._memory = Memory()
        self.kills = 0

    def live(self, blow: Blow) -> None:
        """Start, look at what is there, and send traffic until the server has ended as it was meant to."""
        try:
            life = self._begin(blow)
        except DidNotStart as failed:
            # A first start commits too, so a failpoint may be reached before anybody can ask for anything.
            if not blow.failpoint or failed.code not in blow.codes:
                raise
            self.kills += 1
            return
        fuse = Fuse(blow.strikes, self.cluster.signal)
        traffic = Traffic(self.cluster.port, life, self._memory, self.seed, fuse)
        traffic.start()
        if blow.moment is not None:
            self._await(blow.moment, traffic)
            self.cluster.signal(signal.SIGKILL)
        assert traffic.join(), f"the server outlived the traffic and was not {blow.name}"
        code = self.cluster.ended()
        assert code in blow.codes, f"{blow.name}: ended with {code}"
        life.orderly = code == 0
        self.kills += not life.orderly
        life.ledger = read_ledger(self.cluster.journal)

    def _await(self, moment: Moment, traffic: Traffic) -> None:
        """Look into the journal of the running server, as any other process may, until a moment has come."""
        journal = Journal.open(self.cluster.journal, readonly=True)
        try:
            while traffic.flowing:
                with journal.read() as view:
                    if moment(view):
                        return
                time.sleep(_GLANCE_EVERY)
        finally:
            journal.close()

    def kill_start(self, part: float) -> None:
        """Kill a server after a part of the time that a start takes."""
        self.cluster.spawn(flags=self._flags)
        self.cluster.kill_after(part * self.cluster.took)
        self.kills += 1

    def kill_when_exists(self, path: Path) -> None:
        """Kill a server that is starting as soon as it has made a file."""
        self.cluster.spawn(flags=self._flags)
        self.cluster.kill_when_exists(path)
        self.kills += 1

    def _begin(self, blow: Blow) -> Life:
        self.cluster.start(blow.failpoint, (*self._flags, *blow.flags))
        life = Life(len(self.history.lives), blow.name)
        self.history.lives.append(life)
        self._look(life)
        return life

    def _look(self, life: Life) -> None:
        """What a restarted server holds, before anybody asks it for more."""
        client = Client(self.cluster.port)
        for plural in KINDS:
            walk = Walk(plural, None, "", 0)
            life.walks.append(walk)
            ask_page(client, walk)
            keyed = ((key_of(plural, item), item) for item in walk.pages[0].items)
            life.found |= {key: item for key, item in keyed if key in OURS}
        life.found_at = min(walk.pages[0].version for walk in life.walks)
        client.close()

    def finish(self) -> Tally:
        """A last look, an orderly end, and the verdict."""
        life = self._begin(Blow("the end"))
        self.cluster.signal(signal.SIGTERM)
        assert self.cluster.ended() == 0, "the server did not end well"
        life.ledger = read_ledger(self.cluster.journal)
        validate(self.history)
        assert not self.cluster.tracebacks(), self.cluster.tracebacks()
        return self._tally()

    def _tally(self) -> Tally:
        operations = list(self.history.operations)
        return Tally(
            self.kills,
            len(operations) + sum(len(walk.pages) for walk in self.history.walks),
            len(self.history.acknowledged),
            sum(not operation.known for operation in operations),
        )


@contextmanager
def trial(folder: Path, seed: str, flags: tuple[str, ...] = KEEP) -> Iterator[Trial]:
    with Cluster(folder) as cluster:
        try:
            yield Trial(cluster, seed, flags)
        except BaseException as error:
            error.add_note(f"seed: {seed!r}, folder: {folder}")
            raise
