"""All background clients of a trial: watchers of every kind over every transport, some of them on one connection; one
that patches, one that lists."""

from __future__ import annotations

import random
import threading
import time

from tests.robustness.background_clients import BackgroundClient, listing, patching
from tests.robustness.client_cache import ClientCache
from tests.robustness.cluster import TIMEOUT, Cluster
from tests.robustness.guarantees import WatchGuaranteeBroken
from tests.robustness.interest import random_interest
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.observations import Observations
from tests.robustness.shared_connection import SharedConnection
from tests.robustness.transports import TRANSPORTS
from tests.robustness.watcher import SMALL_WINDOW, Watcher
from tests.robustness.watching_client import STARTS, WatchingClient, WatchSettings

WATCHERS = 15  # three for each transport
SHARING = 5  # further ones, on one connection
_POLL_SECONDS = 0.01


class Watchers:
    def __init__(self, cluster: Cluster, observations: Observations, cache: ClientCache, seed: str) -> None:
        self._watching = [
            WatchingClient(settings, cluster, observations, cache, random.Random(f"{seed} {settings.name}"))
            for settings in _random_settings(random.Random(f"{seed} settings"))
        ]
        alone, shared = self._watching[:WATCHERS], self._watching[WATCHERS:]
        watchers = [
            Watcher(one, cluster, random.Random(f"{seed} {one.settings.name} connects")) for one in alone
        ]
        connection = SharedConnection(shared, cluster, random.Random(f"{seed} shared connection"))
        interests = [one.settings.interest for one in self._watching]
        self._patcher = BackgroundClient(patching(cluster, random.Random(f"{seed} patches")))
        self._lister = BackgroundClient(
            listing(cluster, interests, observations, random.Random(f"{seed} lists"))
        )
        self._clients: list[Watcher | SharedConnection | BackgroundClient] = [
            *watchers,
            connection,
            self._patcher,
            self._lister,
        ]
        self._threads = [threading.Thread(target=one.run) for one in self._clients]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop_writes(self) -> None:
        """Stop the patches; after that the watchers only read."""
        self._patcher.leaving.set()
        self._threads[self._clients.index(self._patcher)].join(60)
        for one in self._watching:
            one.read_only.set()

    def await_all(self, follower: JournalFollower) -> None:
        """Wait until every watcher has received everything; fails after a timeout."""
        deadline = time.monotonic() + TIMEOUT
        for one in self._watching:
            expected = follower.expected(one.settings.interest)
            while not one.has_all(expected) and not any(client.failure for client in self._clients):
                if time.monotonic() > deadline:
                    missing = f"{one.settings} did not receive everything up to {expected.last}"
                    raise WatchGuaranteeBroken("Reliable", missing)
                time.sleep(_POLL_SECONDS)

    def leave(self) -> None:
        """Each client leaves when its stream ends."""
        for one in self._clients:
            one.leaving.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
        for one in self._clients:
            if one.failure is not None:
                raise one.failure


def _random_settings(rng: random.Random) -> list[WatchSettings]:
    transports, starts = list(TRANSPORTS), list(STARTS)
    rng.shuffle(transports)
    rng.shuffle(starts)
    return [
        WatchSettings(
            name=f"watcher {number}",
            interest=random_interest(rng),
            transport=transports[number % len(transports)],
            start=starts[number % len(starts)],
            bookmarks=rng.random() < 0.5,
            old_path=rng.random() < 0.2,
            seconds=rng.choice((0, 0, 1)),
            window=rng.choice((0, SMALL_WINDOW)),
        )
        for number in range(WATCHERS + SHARING)
    ]
