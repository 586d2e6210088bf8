"""The crowd of one run: watchers of every kind over every transport, one that patches, one that lists."""

from __future__ import annotations

import random
import threading
import time

from tests.robustness.bystanders import Bystander, listing, patching
from tests.robustness.chronicle import Chronicle
from tests.robustness.cluster import PATIENCE, Cluster
from tests.robustness.course import Sightings
from tests.robustness.interest import random_interest
from tests.robustness.memory import Memory
from tests.robustness.promise import BrokenWatch
from tests.robustness.watcher import BEGINNINGS, SMALL_WINDOW, Habits, Watcher
from tests.robustness.wires import WIRES

WATCHERS = 15  # three for each transport
_GLANCE = 0.01


class Watchers:
    def __init__(self, cluster: Cluster, sightings: Sightings, memory: Memory, seed: str) -> None:
        self._watchers = [
            Watcher(habits, cluster, sightings, memory, random.Random(f"{seed} {habits.name}"))
            for habits in _habits(random.Random(f"{seed} habits"))
        ]
        interests = [watcher.habits.interest for watcher in self._watchers]
        self._patcher = Bystander(patching(cluster, random.Random(f"{seed} patches")))
        self._lister = Bystander(listing(cluster, interests, sightings, random.Random(f"{seed} lists")))
        self._everybody = [*self._watchers, self._patcher, self._lister]
        self._threads = [threading.Thread(target=one.run) for one in self._everybody]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def calm_down(self) -> None:
        """No more writes, and everybody reads."""
        self._patcher.leaving.set()
        self._threads[self._everybody.index(self._patcher)].join()
        for watcher in self._watchers:
            watcher.calm.set()

    def await_all(self, chronicle: Chronicle) -> None:
        """Until every watcher has been told everything, which must not take long now."""
        deadline = time.monotonic() + PATIENCE
        for watcher in self._watchers:
            expected = chronicle.expected(watcher.habits.interest)
            while not watcher.has_all(expected):
                if time.monotonic() > deadline:
                    told = f"{watcher.habits} was never told all up to {expected.last}"
                    raise BrokenWatch("Reliable", told)
                time.sleep(_GLANCE)

    def leave(self) -> None:
        """Each when its stream ends."""
        for one in self._everybody:
            one.leaving.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        for one in self._everybody:
            if one.failure is not None:
                raise one.failure


def _habits(chance: random.Random) -> list[Habits]:
    wires, beginnings = list(WIRES), list(BEGINNINGS)
    chance.shuffle(wires)
    chance.shuffle(beginnings)
    return [
        Habits(
            name=f"watcher {number}",
            interest=random_interest(chance),
            wire=wires[number % len(wires)],
            beginning=beginnings[number % len(beginnings)],
            bookmarks=chance.random() < 0.5,
            old_path=chance.random() < 0.2,
            seconds=chance.choice((0, 0, 1)),
            window=chance.choice((0, SMALL_WINDOW)),
        )
        for number in range(WATCHERS)
    ]
