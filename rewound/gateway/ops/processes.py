"""Combines the metrics of several processes: how they are sent and added up, and how none is lost when a process
ends.

A scrape of any process shows all of them: the one that writes asks the others (`Members`), and the one that is
scraped merges the replies in a thread (`NumbersOfAll`). Nothing is sent outside of scrapes, except the last numbers
of a process that ends.

Counters do not go backwards when a process is replaced: `Members` keeps its counts in the totals of ended processes.
For a process that was killed these are the numbers of its last scrape. If a process does not respond in time, its
gauges are missing, and its counters are those of the previous scrape. The next process that writes inherits the
totals from the workers, which have what the last one collected for them or for itself.

Rejected: a file per process to which each counter is written, which costs a request as much as all its other
counting.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgpack
import trio

from rewound.gateway.ops.exposition import (
    Across,
    Buckets,
    Distributions,
    Family,
    Histogram,
    Snapshot,
    labelled,
)

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 1.0
_NOTHING: Final = Snapshot([], [])

Numbers = Callable[[], Awaitable[bytes]]
_Labels = tuple[str, ...]


def encode(snapshot: Snapshot, process: bytes = b"") -> bytes:
    """`process` distinguishes the numbers of one process from those of others."""
    values = [
        (one.name, one.text, one.kind, one.labels, one.across, labelled(value))
        for one, value in snapshot.values
    ]
    distributions = [
        (one.name, one.text, one.bounds, one.labels, list(found.items()))
        for one, found in snapshot.distributions
    ]
    packed: bytes = msgpack.packb(process) + msgpack.packb((values, distributions))
    return packed


def process_of(packed: bytes) -> bytes:
    process: bytes = next(_parts(packed))
    return process


def _parts(packed: bytes) -> msgpack.Unpacker:
    parts = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    parts.feed(packed)
    return parts


def decode(packed: bytes) -> Snapshot:
    _, (values, distributions) = _parts(packed)
    return Snapshot(
        [(Family(*family), dict(rows)) for *family, rows in values],
        [(Histogram(*histogram), dict(rows)) for *histogram, rows in distributions],
    )


def merged(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The merged numbers; if two releases describe a metric differently, the first description is used."""
    values: dict[str, tuple[Family, dict[_Labels, float]]] = {}
    distributions: dict[str, tuple[Histogram, dict[_Labels, tuple[float, Buckets]]]] = {}
    for snapshot in snapshots:
        for family, value in snapshot.values:
            first, numbers = values.setdefault(family.name, (family, {}))
            if first.labels == family.labels:
                _merge_values(first.across, numbers, labelled(value))
        for histogram, found in snapshot.distributions:
            known, sums = distributions.setdefault(histogram.name, (histogram, {}))
            if (known.labels, known.bounds) == (histogram.labels, histogram.bounds):
                _add_distributions(sums, found)
    return Snapshot(list(values.values()), list(distributions.values()))


def _merge_values(
    across: Across, numbers: dict[_Labels, float], rows: Iterable[tuple[_Labels, float]]
) -> None:
    for labels, number in rows:
        known = numbers.get(labels)
        if known is None:
            numbers[labels] = number
        elif across == "sum":
            numbers[labels] = known + number
        elif across == "max":
            numbers[labels] = max(known, number)
        elif across == "min":
            numbers[labels] = min(known, number)


def _add_distributions(sums: dict[_Labels, tuple[float, Buckets]], found: Distributions) -> None:
    for labels, (total, buckets) in found.items():
        before, counts = sums.get(labels, (0.0, (0,) * len(buckets)))
        sums[labels] = before + total, tuple(map(int.__add__, counts, buckets))


def totals(snapshot: Snapshot) -> Snapshot:
    """What is kept of a process that has ended: counters and histograms."""
    counters = [(family, value) for family, value in snapshot.values if family.kind == "counter"]
    return Snapshot(counters, snapshot.distributions)


class Collected(NamedTuple):
    """The numbers of all processes, except the worker that asked."""

    # Number of the process that writes, and of its collections: the largest is the newest.
    order: tuple[int, int]
    writer: bytes
    ended: bytes  # totals of processes that have ended
    workers: tuple[bytes, ...]  # the others; totals for those that have not responded


class Members:
    """The workers, in the process that writes; `own` returns the numbers of that process."""

    def __init__(self, own: Numbers) -> None:
        self._own = own
        self._members: dict[object, Numbers] = {}
        self._last: dict[object, bytes] = {}  # the last reply of each
        self._ended = self._inherited = _NOTHING  # totals
        self._inherited_order, self._order = (0, 0), (1, 0)
        self._reported: set[bytes] = set()  # processes of which this one has numbers
        # Totals of those of which only the previous writer had numbers.
        self._unreported: dict[bytes, Snapshot] = {}
        self.ended = self.unanswered = 0

    def __len__(self) -> int:
        return len(self._members)

    def join(self, member: object, ask: Numbers) -> None:
        self._members[member] = ask

    def report(self, member: object, numbers: bytes) -> None:
        """Take the last numbers of a member, which it sends before it ends gracefully."""
        if member in self._members:
            self._last[member] = numbers
            self._reported.add(process := process_of(numbers))
            self._unreported.pop(process, None)

    def leave(self, member: object) -> None:
        if self._members.pop(member, None) is not None:
            self.ended += 1
            self._ended = merged((self._ended, *self._totals_of(member)))
            self._last.pop(member, None)

    def inherit(self, packed: bytes) -> None:
        """Inherit the totals of the previous process that wrote, as a worker has them from its last scrape.

        Those of workers count until they have connected, because they may have ended too.
        """
        (epoch, number), writer, ended, workers = msgpack.unpackb(packed)
        if (epoch, number) > self._inherited_order:
            self._inherited_order = epoch, number
            self._inherited = merged((totals(decode(writer)), decode(ended)))
            self._unreported = {
                process: totals(decode(numbers))
                for numbers in workers
                if (process := process_of(numbers)) not in self._reported
            }
            self._order = max(self._order, (epoch + 1, 0))

    async def collect(self, asking: object, numbers: bytes) -> bytes:
        """An encoded Collected, for a member that sends its own numbers."""
        self.report(asking, numbers)
        return _encoded(await self._collect(asking, self._own))

    async def collect_own(self, own: bytes) -> tuple[list[bytes], bytes]:
        """The parts of a scrape of the process that writes; and an encoded Collected, which the workers keep."""

        async def of_scrape() -> bytes:
            return own

        found = await self._collect(None, of_scrape)
        return [found.writer, *found.workers, found.ended], _encoded(found)

    async def _collect(self, asking: object, own: Numbers) -> Collected:
        answered: set[object] = set()
        async with trio.open_nursery() as nursery:
            for member, ask in self._members.items():
                if member is not asking:
                    nursery.start_soon(self._ask, member, ask, answered)
        writer = await own()
        # Those that have ended meanwhile are in the totals.
        workers = [self._last[member] for member in self._members if member in answered]
        workers += [
            encode(found, process_of(self._last[member]))
            for member in self._members
            if member is not asking and member not in answered
            for found in self._totals_of(member)
        ]
        workers += [encode(found, process) for process, found in self._unreported.items()]
        ended = encode(merged((self._inherited, self._ended)))
        epoch, number = self._order
        self._order = epoch, number + 1
        return Collected(self._order, writer, ended, tuple(workers))

    async def _ask(self, member: object, ask: Numbers, answered: set[object]) -> None:
        try:
            with trio.fail_after(ANSWER_SECONDS):
                numbers = await ask()
        except Exception as error:  # of a process that is ending or does not respond
            self.unanswered += 1
            logger.warning("a scrape is without the gauges of a worker process: %s", type(error).__name__)
            return
        if member in self._members:
            self.report(member, numbers)
            answered.add(member)

    def _totals_of(self, member: object) -> Sequence[Snapshot]:
        last = self._last.get(member)
        return () if last is None else (totals(decode(last)),)


def _encoded(collected: Collected) -> bytes:
    packed: bytes = msgpack.packb(collected)
    return packed


class NumbersOfAll:
    """The numbers of all processes, in a worker."""

    def __init__(self, call: Callable[[bytes], Awaitable[bytes]]) -> None:
        """`call` calls `Members.collect`; it raises ConnectionError if the process that writes is not running."""
        self._call = call
        self._last: Collected | None = None

    async def collect(self, own: bytes) -> list[bytes]:
        """Collect all, with the `own` numbers of this process; without the writer, those of others stay the same."""
        try:
            with trio.fail_after(2 * ANSWER_SECONDS):
                packed = await self._call(own)
        except (ConnectionError, trio.TooSlowError):
            return [own, *self._last_totals(process_of(own))]
        found = self._last = _decoded(packed)
        return [found.writer, own, *found.workers, found.ended]

    def keep(self, packed: bytes) -> None:
        """Keep what the process that writes has collected for itself."""
        self._last = _decoded(packed)

    def _last_totals(self, own: bytes) -> list[bytes]:
        """The last known totals of all processes except `own`."""
        if (last := self._last) is None:
            return []
        others = (one for one in last.workers if process_of(one) != own)
        return [encode(totals(decode(one))) for one in (last.writer, *others, last.ended)]

    def inheritance(self) -> bytes | None:
        """What the next process that writes inherits; None if nothing is known."""
        if (last := self._last) is None:
            return None
        return _encoded(last)


def _decoded(packed: bytes) -> Collected:
    return Collected(*msgpack.unpackb(packed, use_list=False))
