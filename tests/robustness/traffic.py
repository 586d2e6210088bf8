"""Seeded random traffic: several clients at once, each a thread with a real connection of its own."""

from __future__ import annotations

import random
import threading

from tests.robustness.caller import Caller
from tests.robustness.client import Client
from tests.robustness.fuse import Fuse
from tests.robustness.history import Life
from tests.robustness.memory import Memory

CLIENTS = 5  # enough for commits of several writes, few enough for one core


class Traffic:
    def __init__(self, port: int, life: Life, memory: Memory, seed: str, fuse: Fuse) -> None:
        self._callers = [
            Caller(number, Client(port), life, memory, random.Random(f"{seed} {life.number} {number}"), fuse)
            for number in range(CLIENTS)
        ]
        self._threads = [threading.Thread(target=caller.run) for caller in self._callers]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def flowing(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> bool:
        """Wait for all clients. Whether the server was gone before they had done their share."""
        for thread in self._threads:
            thread.join()
        for caller in self._callers:
            if caller.failure is not None:
                raise caller.failure
        return all(caller.forsaken for caller in self._callers)
