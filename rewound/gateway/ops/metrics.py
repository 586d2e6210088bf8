"""Metrics for Prometheus: requests are counted in plain integers, everything else is read at scrape time.

A scrape copies the numbers in the event loop and formats them in a thread (`exposition`). Metrics that Kubernetes has
too have the same names, types and labels; docs/metrics.md lists them. If several processes serve one port, each
reports the numbers of all of them: `collect` fetches them, and the thread merges them (`processes`).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Final

import trio

from rewound.gateway.ops.exposition import (
    Across,
    Distributions,
    Family,
    Histogram,
    Read,
    Snapshot,
    exposition,
    of_this_process,
)
from rewound.gateway.ops.processes import decode, encode, merged
from rewound.gateway.ops.request_series import Counted, RequestSeries, request_families

# Takes the encoded numbers of this process, and returns those of all processes of the server.
Collect = Callable[[bytes], Awaitable[Sequence[bytes]]]

# User names that Kubernetes shows; it counts all others together.
_SHOWN_USERS: Final = (
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
)


class InFlight:
    """How many requests are running, and the most within the last second or two."""

    __slots__ = ("_before", "next", "now", "peak")

    def __init__(self) -> None:
        self.now = self.peak = self._before = 0
        self.next = 0.0  # when the next second starts, by the clock of durations

    def rotate(self, at: float) -> None:
        """Start the next second."""
        self._before = self.peak if at < self.next + 1 else self.now
        self.peak, self.next = self.now, at + 1

    def most(self) -> int:
        return self.most_at(perf_counter())

    def most_at(self, at: float) -> int:
        return self.now if at >= self.next + 1 else max(self.peak, self._before)


class Authentications:
    """How many requests authenticated, by user name, and how many did not."""

    __slots__ = ("_named", "emails", "failures", "refused", "successes")

    def __init__(self) -> None:
        self.successes = self.failures = self.refused = self.emails = 0
        self._named: dict[str, list[int]] = {name: [0] for name in _SHOWN_USERS}

    def succeed(self, user: str) -> None:
        self.successes += 1
        named = self._named.get(user)
        if named is not None:
            named[0] += 1
        elif "@" in user:
            self.emails += 1

    def users(self) -> dict[str, float]:
        found: dict[str, float] = {name: count for name, [count] in self._named.items() if count}
        if self.emails:
            found["email_id"] = self.emails
        if others := self.successes - sum(found.values()):
            found["other"] = others
        return found

    def results(self) -> dict[str, float]:
        found = {"success": self.successes, "failure": self.failures, "error": self.refused}
        return {result: count for result, count in found.items() if count}


class Metrics:
    def __init__(
        self, requests: RequestSeries, collect: Collect | None = None, *, of_writer: bool = True
    ) -> None:
        """Without `collect`, this process is the whole server; `of_writer`: it writes the journal."""
        self.requests = requests
        self.authentications = Authentications()
        self.reading, self.mutating = InFlight(), InFlight()
        self._collect = collect
        self._of_writer = of_writer
        self._process = os.urandom(8)
        self._families: list[tuple[Family, Read]] = []
        self._histograms: list[tuple[Histogram, Callable[[], Distributions]]] = []

    def gauge(self, name: str, text: str, read: Read, *labels: str, across: Across = "sum") -> None:
        self._families.append((Family(name, text, "gauge", labels, across), read))

    def counter(self, name: str, text: str, read: Read, *labels: str, across: Across = "sum") -> None:
        self._families.append((Family(name, text, "counter", labels, across), read))

    def histogram(
        self,
        name: str,
        text: str,
        read: Callable[[], Distributions],
        bounds: tuple[float, ...],
        *labels: str,
    ) -> None:
        self._histograms.append((Histogram(name, text, bounds, labels), read))

    async def scrape(self) -> bytes:
        if self._collect is not None:
            parts = await self._collect(await self.numbers())
            return await trio.to_thread.run_sync(_merged_text, parts)
        return await trio.to_thread.run_sync(_text, self.snapshot(), self.requests.snapshot())

    def text(self) -> bytes:
        """The text of this process's numbers, created in the calling thread."""
        return _text(self.snapshot(), self.requests.snapshot())

    async def numbers(self) -> bytes:
        """The numbers of this process, for a scrape of all."""
        snapshot = self.snapshot()
        return await trio.to_thread.run_sync(_encoded, snapshot, self.requests.snapshot(), self._process)

    def snapshot(self) -> Snapshot:
        """The current numbers, except those of requests; those of the writer only in the process that writes."""
        of_writer = self._of_writer
        return Snapshot(
            [(family, read()) for family, read in self._families if of_writer or family.across != "writer"],
            [(histogram, read()) for histogram, read in self._histograms],
        )


# The rest runs in a thread.


def _text(snapshot: Snapshot, requests: list[Counted]) -> bytes:
    return exposition(_whole(snapshot, requests))


def _encoded(snapshot: Snapshot, requests: list[Counted], process: bytes) -> bytes:
    return encode(_whole(snapshot, requests), process)


def _whole(snapshot: Snapshot, requests: list[Counted]) -> Snapshot:
    values, distributions = request_families(requests)
    return Snapshot(
        [*snapshot.values, *values, *of_this_process()], [*snapshot.distributions, *distributions]
    )


def _merged_text(parts: Sequence[bytes]) -> bytes:
    return exposition(merged(map(decode, parts)))
