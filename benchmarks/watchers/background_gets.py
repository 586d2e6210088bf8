"""Measures requests of another client during deliveries: one get every few milliseconds.

The harness calls it while it waits for a command of a watcher process. The requests are so few that the server's CPU
goes to the watchers, and their latency shows how much the deliveries delay other clients.
"""

from __future__ import annotations

import select
import time

from benchmarks.loads.connection import Http1Connection, client_context
from benchmarks.loads.latency import summary
from benchmarks.loads.request import Request
from benchmarks.servers.endpoint import Endpoint

INTERVAL = 0.005  # seconds between two gets
TIMEOUT_MS = 30_000


class BackgroundGets:
    def __init__(self, endpoint: Endpoint, path: str) -> None:
        context = client_context() if endpoint.tls else None
        self._connection = Http1Connection(0, endpoint, context, keep_body=False)
        self._request = Request("GET", path)
        self._poll = select.poll()
        self._poll.register(self._connection.fileno(), select.POLLIN)
        self._buffer = bytearray(1 << 16)
        self._view = memoryview(self._buffer)
        self._latencies: list[float] = []

    def __call__(self) -> None:
        begin = time.perf_counter()
        self._connection.start(self._connection.exchanges[0], self._request)
        while not self._connection.read(self._buffer, self._view):
            if not self._poll.poll(TIMEOUT_MS):
                raise OSError("a get during deliveries had no response")
        self._latencies.append(time.perf_counter() - begin)
        time.sleep(INTERVAL)

    def summary(self) -> dict[str, float]:
        return summary(self._latencies)

    def close(self) -> None:
        self._connection.close()
