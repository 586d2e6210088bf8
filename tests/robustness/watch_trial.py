"""Takes one data folder with watchers through several runs of its server; at the end, validates what they received.

The writers are the traffic of the other trials. The server is tuned so that a second shows what otherwise takes
hours: bookmarks many times a second, almost nothing held in memory, socket buffers that are soon full.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.robustness.client_cache import ClientCache
from tests.robustness.cluster import Cluster, DidNotStart
from tests.robustness.history import ServerRun
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.observations import BOOKMARK, Observations
from tests.robustness.signal_schedule import SignalSchedule
from tests.robustness.termination import Termination
from tests.robustness.traffic import Traffic
from tests.robustness.validate.watch import validate_watches
from tests.robustness.watchers import Watchers

_FREQUENT_BOOKMARKS = "from rewound.gateway.watch import group; group.BOOKMARK_INTERVAL = 0.05"
_SMALL_CACHES = (
    "from rewound.gateway.watch import changes, frames; frames.RETAINED_FRAMES = 4; changes.HELD_EVENTS = 8",
    "from rewound.gateway.watch import changes; changes.STEP_EVENTS = 3",
)
_SMALL_PAGES = (
    "from rewound.gateway.watch import initial_events as pages; pages.FIRST_PAGE = 2; pages.LARGEST_PAGE = 3"
)
_SMALL_TURNS = "from rewound.gateway.watch import group, hub; group.TURN = hub.TURN = group.SMALLEST_TURN = 1"
_SMALL_BUFFERS = """
import socket
class SmallBufferSocket(socket.socket):
    def listen(self, *args):
        self.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
        super().listen(*args)
socket.socket = SmallBufferSocket
"""


@dataclass(frozen=True, slots=True)
class Tally:
    runs: int = 0
    kills: int = 0
    streams: int = 0
    events: int = 0
    bookmarks: int = 0
    expired: int = 0
    lists: int = 0
    commits: int = 0

    def __add__(self, other: Tally) -> Tally:
        mine, others = (tuple(getattr(one, name) for name in self.__slots__) for one in (self, other))
        return Tally(*(one + two for one, two in zip(mine, others, strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.kills} kills, {self.commits} changes, {self.streams} streams, "
            f"{self.events} events, {self.bookmarks} of them bookmarks, {self.expired} times 410, {self.lists} lists"
        )


class WatchTrial:
    def __init__(self, cluster: Cluster, seed: str, window: float, flags: tuple[str, ...]) -> None:
        self.rng = random.Random(seed)
        self._cluster = cluster
        self._seed = seed
        self._flags = (*flags, "--watch-history", f"{round(window * 1000)}ms")
        self._cache = ClientCache()
        self._follower = JournalFollower()
        self.observations = Observations(window)
        self._watchers = Watchers(cluster, self.observations, self._cache, seed)
        self._runs = 0
        self._kills = 0

    def __enter__(self) -> WatchTrial:
        self._watchers.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watchers.leave()
        self._cluster.kill()
        self._watchers.stop_writes()
        self._follower.stop()

    def run_until(self, termination: Termination) -> None:
        """Start and send traffic until the server has been terminated."""
        try:
            self._begin(termination)
        except DidNotStart as failed:
            # A first start commits too, so the server may reach a failpoint before it is ready.
            if not termination.failpoint or failed.code not in termination.codes:
                raise
            self._runs += 1
            self._kills += 1
            return
        schedule = SignalSchedule(termination.signals, self._cluster.signal)
        run = ServerRun(self._runs, termination.name)
        traffic = Traffic(self._cluster.port, run, self._cache, self._seed, schedule)
        traffic.start()
        assert traffic.join(), f"all requests were sent before the server was {termination.name}"
        code = self._cluster.ended()
        assert code in termination.codes, f"{termination.name}: ended with {code}"
        self._kills += code != 0
        self._follower.read_to_the_end()

    def _begin(self, termination: Termination) -> None:
        self._cluster.start(termination.failpoint, (*self._flags, *termination.flags))
        self._runs += 1
        self._follower.follow(self._cluster.journal)

    def finish(self) -> Tally:
        """A last run without writes, in which all watchers catch up; then stop and validate."""
        self._begin(Termination("stopped at the end"))
        self._watchers.stop_writes()
        self._follower.read_to_the_end()
        self._watchers.await_all(self._follower)
        self._watchers.leave()
        self._cluster.signal(signal.SIGTERM)
        assert self._cluster.ended() == 0, "the server did not exit with 0"
        self._watchers.join()
        assert not self._cluster.tracebacks(), self._cluster.tracebacks()
        validate_watches(self.observations, self._follower)
        return self._tally()

    def _tally(self) -> Tally:
        streams = [stream for session in self.observations.sessions for stream in session.streams]
        events = [event for stream in streams for event in stream.events]
        return Tally(
            runs=self._runs - 1,
            kills=self._kills,
            streams=len(streams),
            events=len(events),
            bookmarks=sum(event.type == BOOKMARK for event in events),
            expired=sum(stream.error is not None for stream in streams),
            lists=len(self.observations.listings),
            commits=len(self._follower.entries),
        )


@contextmanager
def watch_trial(
    folder: Path, seed: str, window: float = 300.0, flags: tuple[str, ...] = ("--journal-retention", "0")
) -> Iterator[WatchTrial]:
    """`window`: seconds of watch history. The seed applies each tuning to half of the trials."""
    rng = random.Random(f"{seed} tuning")
    with Cluster(folder) as cluster:
        cluster.secure = True
        cluster.tuned = (
            _FREQUENT_BOOKMARKS,
            *(
                one
                for one in (*_SMALL_CACHES, _SMALL_PAGES, _SMALL_TURNS, _SMALL_BUFFERS)
                if rng.random() < 0.5
            ),
        )
        try:
            with WatchTrial(cluster, seed, window, flags) as one:
                yield one
        except BaseException as error:
            error.add_note(f"seed: {seed!r}, folder: {folder}, tuned: {cluster.tuned}")
            raise
