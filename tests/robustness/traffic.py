"""Seeded random traffic: several clients at once, each a thread with its own connection."""

from __future__ import annotations

import random
import threading

from tests.robustness.client import Client
from tests.robustness.client_cache import ClientCache
from tests.robustness.history import ServerRun
from tests.robustness.random_client import RandomClient
from tests.robustness.signal_schedule import SignalSchedule

CLIENTS = 5  # enough for commits of several writes, few enough for one core


class Traffic:
    def __init__(
        self, port: int, run: ServerRun, cache: ClientCache, seed: str, schedule: SignalSchedule
    ) -> None:
        self._clients = [
            RandomClient(
                number, Client(port), run, cache, random.Random(f"{seed} {run.number} {number}"), schedule
            )
            for number in range(CLIENTS)
        ]
        self._threads = [threading.Thread(target=client.run) for client in self._clients]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> bool:
        """Wait for all clients; returns whether the server ended before they had sent all their requests."""
        for thread in self._threads:
            thread.join(60)
        for client in self._clients:
            if client.failure is not None:
                raise client.failure
        return all(client.server_gone for client in self._clients)
