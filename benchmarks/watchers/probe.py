"""Somebody else's requests while watchers are served: one get every few milliseconds, and how long it took.

Called by whoever waits for an order of an audience. Few enough requests that the server's CPU stays with the
watchers, and each of them is a client that must not notice them.
"""

from __future__ import annotations

import select
import time

from benchmarks.loads.connection import Lane, client_context
from benchmarks.loads.http1 import request
from benchmarks.loads.latency import summary
from benchmarks.servers.target import Target

PACE = 0.005
PATIENCE_MS = 30_000


class Probe:
    def __init__(self, target: Target, path: str) -> None:
        context = client_context() if target.tls else None
        self._lane = Lane(0, target, context, keep_body=False)
        self._request = request("GET", path, token=target.token)
        self._poll = select.poll()
        self._poll.register(self._lane.fileno(), select.POLLIN)
        self._buffer = bytearray(1 << 16)
        self._view = memoryview(self._buffer)
        self._latencies: list[float] = []

    def __call__(self) -> None:
        begin = time.perf_counter()
        self._lane.send(self._request)
        while not self._lane.read(self._buffer, self._view):
            if not self._poll.poll(PATIENCE_MS):
                raise OSError("a request beside the watchers was not answered")
        self._latencies.append(time.perf_counter() - begin)
        time.sleep(PACE)

    def summary(self) -> dict[str, float]:
        return summary(self._latencies)

    def close(self) -> None:
        self._lane.close()
