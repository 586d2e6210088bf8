"""One data folder with watchers through several lives of its server; at the end, judge what they saw.

Writers are the traffic of the other trials. The server is tuned to meet in a second what takes others
hours: bookmarks many times a second, next to nothing kept in memory, sockets that are soon full.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.robustness.blow import Blow
from tests.robustness.chronicle import Chronicle
from tests.robustness.cluster import Cluster, DidNotStart
from tests.robustness.course import BOOKMARK, Sightings
from tests.robustness.fuse import Fuse
from tests.robustness.history import Life
from tests.robustness.memory import Memory
from tests.robustness.traffic import Traffic
from tests.robustness.validate.watch import validate_watches
from tests.robustness.watchers import Watchers

_OFTEN = "from gateway.watch import sweeper; sweeper.BOOKMARK_INTERVAL = 0.05"
_FORGETFUL = (
    "from gateway.watch import changes, frames; frames.KEPT_FRAMES = 4; changes.KEPT_EVENTS = 8",
    "from gateway.watch import changes; changes.STEP_EVENTS = 3",
)
_BY_PAGES = "from gateway.watch import state; state.FIRST_PAGE = 2; state.LARGEST_PAGE = 3"
_IN_TURNS = "from gateway.watch import group, hub; group.TURN = hub.TURN = 1"
_NARROW = """
import socket
class Narrow(socket.socket):
    def listen(self, *args):
        self.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
        super().listen(*args)
socket.socket = Narrow
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
        self.chance = random.Random(seed)
        self._cluster = cluster
        self._seed = seed
        self._flags = (*flags, "--watch-history", f"{round(window * 1000)}ms")
        self._memory = Memory()
        self._chronicle = Chronicle()
        self.sightings = Sightings(window)
        self._watchers = Watchers(cluster, self.sightings, self._memory, seed)
        self._lives = 0
        self._kills = 0

    def __enter__(self) -> WatchTrial:
        self._watchers.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watchers.leave()
        self._cluster.kill()
        self._watchers.calm_down()
        self._chronicle.stop()

    def live(self, blow: Blow) -> None:
        """Traffic, until the server has ended as it was meant to."""
        try:
            self._begin(blow)
        except DidNotStart as failed:
            # A first start commits too, so a failpoint may be reached before anybody can ask for anything.
            if not blow.failpoint or failed.code not in blow.codes:
                raise
            self._lives += 1
            self._kills += 1
            return
        fuse = Fuse(blow.strikes, self._cluster.signal)
        life = Life(self._lives, blow.name)
        traffic = Traffic(self._cluster.port, life, self._memory, self._seed, fuse)
        traffic.start()
        assert traffic.join(), f"the server outlived the traffic and was not {blow.name}"
        code = self._cluster.ended()
        assert code in blow.codes, f"{blow.name}: ended with {code}"
        self._kills += code != 0
        self._chronicle.read_to_the_end()

    def _begin(self, blow: Blow) -> None:
        self._cluster.start(blow.failpoint, (*self._flags, *blow.flags))
        self._lives += 1
        self._chronicle.follow(self._cluster.journal)

    def finish(self) -> Tally:
        """A last life without writes, in which everybody gets everything; an orderly end; the verdict."""
        self._begin(Blow("the end"))
        self._watchers.calm_down()
        self._chronicle.read_to_the_end()
        self._watchers.await_all(self._chronicle)
        self._watchers.leave()
        self._cluster.signal(signal.SIGTERM)
        assert self._cluster.ended() == 0, "the server did not end well"
        self._watchers.join()
        assert not self._cluster.tracebacks(), self._cluster.tracebacks()
        validate_watches(self.sightings, self._chronicle)
        return self._tally()

    def _tally(self) -> Tally:
        streams = [stream for course in self.sightings.courses for stream in course.streams]
        events = [event for stream in streams for event in stream.events]
        return Tally(
            runs=self._lives - 1,
            kills=self._kills,
            streams=len(streams),
            events=len(events),
            bookmarks=sum(event.type == BOOKMARK for event in events),
            expired=sum(stream.error is not None for stream in streams),
            lists=len(self.sightings.listings),
            commits=len(self._chronicle.entries),
        )


@contextmanager
def watch_trial(
    folder: Path, seed: str, window: float = 300.0, flags: tuple[str, ...] = ("--journal-retention", "0")
) -> Iterator[WatchTrial]:
    """`window`: seconds of watch history. Half of all trials, by their seed, have each of the tunings."""
    chance = random.Random(f"{seed} tuning")
    with Cluster(folder) as cluster:
        cluster.secure = True
        cluster.tuned = (
            _OFTEN,
            *(one for one in (*_FORGETFUL, _BY_PAGES, _IN_TURNS, _NARROW) if chance.random() < 0.5),
        )
        try:
            with WatchTrial(cluster, seed, window, flags) as one:
                yield one
        except BaseException as error:
            error.add_note(f"seed: {seed!r}, folder: {folder}, tuned: {cluster.tuned}")
            raise
