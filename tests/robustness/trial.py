"""Takes one data folder through many kills: start, list, load, kill, read the journal; at the end, validate.

The seed decides everything that a test can decide. Every failure names it.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rewound.journal import Journal
from tests.robustness.client import Client, ConnectionBroken
from tests.robustness.client_cache import ClientCache
from tests.robustness.cluster import Cluster, DidNotStart
from tests.robustness.history import History, PagedList, ServerRun
from tests.robustness.journal_contents import read_journal
from tests.robustness.objects import KINDS, TEST_KEYS, key_of
from tests.robustness.requests import fetch_page
from tests.robustness.signal_schedule import SignalSchedule
from tests.robustness.termination import Condition, Termination
from tests.robustness.traffic import Traffic
from tests.robustness.validate import validate

# The validators need old versions, unless a trial is about compaction.
KEEP = ("--journal-retention", "0")
# Both limits are so short that the first round of housekeeping compacts.
FORGET = ("--watch-history", "1s", "--journal-retention", "2s")
_FILE_POLL_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Tally:
    kills: int = 0
    requests: int = 0
    acknowledged: int = 0
    without_response: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.kills + other.kills,
            self.requests + other.requests,
            self.acknowledged + other.acknowledged,
            self.without_response + other.without_response,
        )

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.requests} requests, {self.acknowledged} writes acknowledged, "
            f"{self.without_response} requests without a response"
        )


class Trial:
    def __init__(self, cluster: Cluster, seed: str, flags: tuple[str, ...] = KEEP) -> None:
        self.cluster = cluster
        self.seed = seed
        self.rng = random.Random(seed)
        self.history = History()
        self._flags = flags
        self._cache = ClientCache()
        self.kills = 0

    def run_until(self, termination: Termination) -> None:
        """Start, list all objects, and send traffic until the server has been terminated."""
        try:
            run = self._begin(termination)
        except DidNotStart as failed:
            # A first start commits too, so the server may reach a failpoint before it is ready.
            if not termination.failpoint or failed.code not in termination.codes:
                raise
            self.kills += 1
            return
        except ConnectionBroken:
            # Controllers write after a start, so the server may reach a failpoint before the traffic begins.
            if not termination.failpoint:
                raise
            self.history.runs.pop()  # it has no complete list and no request
            code = self.cluster.ended()
            assert code in termination.codes, f"{termination.name}: ended with {code}"
            self.kills += 1
            return
        schedule = SignalSchedule(termination.signals, self.cluster.signal)
        traffic = Traffic(self.cluster.port, run, self._cache, self.seed, schedule)
        traffic.start()
        if termination.condition is not None:
            self._wait_for(termination.condition, traffic)
            self.cluster.signal(signal.SIGKILL)
        assert traffic.join(), f"all requests were sent before the server was {termination.name}"
        code = self.cluster.ended()
        assert code in termination.codes, f"{termination.name}: ended with {code}"
        run.orderly = code == 0
        self.kills += not run.orderly
        run.contents = read_journal(self.cluster.journal)

    def _wait_for(self, condition: Condition, traffic: Traffic) -> None:
        """Read the journal of the running server from this process until a condition holds."""
        journal = Journal.open(self.cluster.journal, readonly=True)
        try:
            while traffic.running:
                with journal.read() as view:
                    if condition(view):
                        return
                time.sleep(_FILE_POLL_SECONDS)
        finally:
            journal.close()

    def kill_start(self, part: float) -> None:
        """Kill a server after a part of the time that a start takes."""
        self.cluster.spawn(flags=self._flags)
        self.cluster.kill_after(part * self.cluster.start_seconds)
        self.kills += 1

    def kill_when_exists(self, path: Path) -> None:
        """Kill a server that is starting as soon as a file exists."""
        self.cluster.spawn(flags=self._flags)
        self.cluster.kill_when_exists(path)
        self.kills += 1

    def _begin(self, termination: Termination) -> ServerRun:
        self.cluster.start(termination.failpoint, (*self._flags, *termination.flags))
        run = ServerRun(len(self.history.runs), termination.name)
        self.history.runs.append(run)
        self._list_all(run)
        return run

    def _list_all(self, run: ServerRun) -> None:
        """List the objects of a restarted server before any traffic."""
        client = Client(self.cluster.port)
        for plural in KINDS:
            paged = PagedList(plural, None, "", 0)
            run.lists.append(paged)
            fetch_page(client, paged)
            keyed = ((key_of(plural, item), item) for item in paged.pages[0].items)
            run.found |= {key: item for key, item in keyed if key in TEST_KEYS}
        run.found_at = min(paged.pages[0].version for paged in run.lists)
        client.close()

    def finish(self) -> Tally:
        """Start once more, list all objects, stop, and validate the history."""
        run = self._begin(Termination("stopped at the end"))
        self.cluster.signal(signal.SIGTERM)
        assert self.cluster.ended() == 0, "the server did not exit with 0"
        run.contents = read_journal(self.cluster.journal)
        validate(self.history)
        assert not self.cluster.tracebacks(), self.cluster.tracebacks()
        return self._tally()

    def _tally(self) -> Tally:
        operations = list(self.history.operations)
        return Tally(
            self.kills,
            len(operations) + sum(len(paged.pages) for paged in self.history.lists),
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
