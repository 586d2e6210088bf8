"""Limits that all workers share: seats of flow control, places in its queues, connections and memory.

The writer process has the allocator of `actors.flowcontrol.leases`, and each process that serves has a holder:

    worker                          writer process
    quota report      - - ->        divides the limits
                      <- - -        quota order
                      <- - -        processes: whose memory counts (`gateway.memory.process`)

A worker reports when something has to wait, when it returns what was recalled, and in reply to each order. While a
worker has too little, the writer process sends orders every `ROUND`; while all have enough, no message is sent.

The writer process serves too: its own holder and the allocator exchange the same messages, over a `LocalChannel`.

Processes are identified by process ids. A worker whose channel has closed may still run requests: its quota is free
when the process no longer exists.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgpack
import trio

from rewound.actors.flowcontrol.in_flight import in_flight_quotas
from rewound.actors.flowcontrol.leases import Allocator, Change, Demand, Holder, Order, Report
from rewound.actors.flowcontrol.priority_and_fairness import configuration_types, read_configuration
from rewound.actors.flowcontrol.seats import level_quotas
from rewound.gateway.connections.limits import CONNECTIONS, connections_in
from rewound.gateway.memory.budget import BUDGET_SHARE, MEMORY, UNIT
from rewound.gateway.settings.settings import Settings
from rewound.gateway.store import Store
from rewound.workers.channel import HandleNotice, LocalChannel, Notifies

logger = logging.getLogger(__name__)

REPORT: Final = "quota report"
ORDER: Final = "quota order"
PROCESSES: Final = "processes"
_REPLY, _NEWS, _JOIN = range(
    3
)  # why a worker reports: to reply to an order, with news, or first over a channel

# Often enough that quota which others no longer use arrives soon, and seldom enough to cost little CPU: a round is a
# message to each worker and one from it, 0.1 ms for each in all.
ROUND: Final = 0.02
# Rounds that move nothing become longer, twice each time up to this, until a worker has news.
_LONGEST_ROUND: Final = 0.32
# How often a worker checks whether recalled quota is still in use; the least time between two reports.
_PERIOD: Final = 0.005
# How often the writer process checks whether a worker that has closed its channel still runs.
_LOOK: Final = 0.05
_PATIENCE: Final = 10.0
_UNHEARD: Final = (
    "the worker with process id %d lives, and has not connected for %d seconds: other workers get no more seats, "
    "connections and memory than they have; end it, if it does not respond"
)
# How long a starting worker waits for its first order, which takes longer only if another one does not respond.
_FIRST_ORDER: Final = 5.0


class QuotasOfWorker:
    """The worker's end. `holder` has the worker's share of the limits."""

    def __init__(self, process: int) -> None:
        """`process` is the id of this process."""
        self.holder = Holder()
        self.holder.wake = self._wake
        self._count_memory: Callable[[Sequence[int]], None] = _nothing
        self._others: Sequence[int] = ()
        self._process = process
        self._channel: Notifies | None = None
        self._asked = False
        self._asking = trio.lowlevel.ParkingLot()
        self._ordered = trio.Event()

    def notices(self, channel: Callable[[], Notifies]) -> dict[str, HandleNotice]:
        """The handlers of notices from the writer process over one channel."""

        def order(body: bytes) -> None:
            if channel() is not self._channel:
                return  # from a writer process that is being replaced
            self._send(_REPLY, self.holder.receive(_decode_order(body)))
            self._ordered.set()
            self._asking.unpark()

        def processes(body: bytes) -> None:
            self._others = [one for one in msgpack.unpackb(body) if one != self._process]
            self._count_memory(self._others)

        return {ORDER: order, PROCESSES: processes}

    def report_processes(self, count_memory: Callable[[Sequence[int]], None]) -> None:
        """Call `count_memory` with the ids of the server's other processes, now and when they change."""
        self._count_memory = count_memory
        count_memory(self._others)

    def connected(self, channel: Notifies) -> None:
        """Report everything to a new writer process, which knows nothing about this worker."""
        self._channel = channel
        self._send(_JOIN, self.holder.first_report())

    async def ordered(self) -> None:
        """Wait for the first order, before clients are served."""
        with trio.move_on_after(_FIRST_ORDER):
            await self._ordered.wait()

    async def leave_with(self, stop: trio.Event) -> None:
        """Return what is not in use, because this worker is about to stop."""
        await stop.wait()
        self._send(_NEWS, self.holder.leave())

    async def run(self) -> None:
        """Send reports to the writer process, until cancelled."""
        while True:
            while not self._asked and not self.holder.recalled:
                await self._asking.park()
            self._asked = False
            if (report := self.holder.changed()) is not None:
                self._send(_NEWS, report)
            await trio.sleep(_PERIOD)

    def _wake(self) -> None:
        self._asked = True
        self._asking.unpark()

    def _send(self, kind: int, report: Report) -> None:
        if self._channel is not None:
            self._channel.notify(REPORT, _encode_report(self._process, kind, report))


def _nothing(_: Sequence[int]) -> None:
    pass


class QuotasOfWriter:
    """The writer process's end: divides the limits among the processes."""

    def __init__(self, read_limits: Callable[[], Mapping[str, int]], living: Iterable[int]) -> None:
        """`living` are the ids of workers that may hold quota from an earlier writer process."""
        self._read_limits = read_limits
        self._allocator = Allocator(read_limits(), living)
        self._channels: dict[int, Notifies] = {}
        self._missing = {process: trio.current_time() for process in living}  # have no channel; since when
        self._stopped = self._reconfigured = self._has_news = False
        self._news, self._lost = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()

    def reconfigure(self) -> None:
        """Divide new limits."""
        self._reconfigured = True
        self._note_news()

    def notices(self, channel: Callable[[], Notifies]) -> dict[str, HandleNotice]:
        """The handlers of notices from a worker over one channel."""
        return {REPORT: lambda body: self._take(channel(), body)}

    def disconnected(self, channel: Notifies) -> None:
        for process in [one for one, known in self._channels.items() if known is channel]:
            del self._channels[process]
            self._missing[process] = trio.current_time()
        self._lost.unpark_all()

    def stop(self) -> None:
        """Stop dividing: the next writer process does."""
        self._stopped = True

    async def run(self) -> None:
        """Divide the limits, and notice which workers have ended, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._free_ended)
            pause = ROUND
            while True:
                if self._reconfigured:
                    self._reconfigured = False
                    self._allocator.configure(self._read_limits())
                    self._send()
                if not self._allocator.short:
                    self._has_news = False
                    await self._wait_for_news()
                    continue
                self._allocator.ask()
                self._send()
                before = self._allocator.moved
                self._has_news = False
                await trio.sleep(ROUND)
                with trio.move_on_after(pause - ROUND):
                    await self._wait_for_news()
                idle = not self._has_news and self._allocator.moved == before
                pause = min(2 * pause, _LONGEST_ROUND) if idle else ROUND

    async def _wait_for_news(self) -> None:
        while not self._has_news:
            await self._news.park()

    def _note_news(self) -> None:
        self._has_news = True
        self._news.unpark_all()

    def _take(self, channel: Notifies, body: bytes) -> None:
        process, kind, report = _decode_report(body)
        if self._stopped:
            return
        if kind == _JOIN:
            self._missing.pop(process, None)
            self._channels[process] = channel
            self._allocator.join(process, report)
            self._announce_processes()
        elif self._channels.get(process) is channel:
            self._allocator.report(process, report)
        self._send()
        if kind != _REPLY:
            self._note_news()

    def _send(self) -> None:
        for process, order in self._allocator.orders():
            if not self._stopped and (channel := self._channels.get(process)) is not None:
                channel.notify(ORDER, _encode_order(order))

    def _announce_processes(self) -> None:
        ids: bytes = msgpack.packb([os.getppid(), *{os.getpid(), *self._channels, *self._missing}])
        for channel in self._channels.values():
            channel.notify(PROCESSES, ids)

    async def _free_ended(self) -> None:
        """Free the quota of workers that have ended."""
        warned: set[int] = set()
        while True:
            if not self._missing or self._stopped:
                await self._lost.park()
            for process, since in list(self._missing.items()):
                if not _lives(process):
                    del self._missing[process]
                    self._allocator.end(process)
                    self._announce_processes()
                    self._send()
                    self._note_news()
                elif trio.current_time() - since > _PATIENCE and process not in warned:
                    warned.add(process)
                    logger.warning(_UNHEARD, process, _PATIENCE)
            await trio.sleep(_LOOK)


def connect_locally(holder: QuotasOfWorker, allocator: QuotasOfWriter) -> LocalChannel:
    """Connect the two ends within the writer process, which also serves; the caller runs the channel."""
    channel = LocalChannel()
    channel.notices.update(holder.notices(lambda: channel))
    channel.notices.update(allocator.notices(lambda: channel))
    holder.connected(channel)
    return channel


def quotas_of_writer(settings: Settings, store: Store, living: Iterable[int]) -> QuotasOfWriter:
    """The writer process's end, with the limits of the settings and of the stored PriorityLevelConfigurations."""
    types = configuration_types(store.names, store.journal)
    memory = store.memory.process.limit
    fixed = {
        MEMORY: int(memory * BUDGET_SHARE) // UNIT,
        CONNECTIONS: settings.max_connections or connections_in(memory),
    }
    if not settings.enable_priority_and_fairness:
        reading, changing = settings.max_requests_inflight, settings.max_mutating_requests_inflight
        return QuotasOfWriter(lambda: fixed | in_flight_quotas(reading, changing), living)

    def read_limits() -> dict[str, int]:
        configuration = read_configuration(
            store.names, store.registry, store.journal, settings.total_inflight
        )
        return fixed | level_quotas(configuration.levels.values())

    quotas = QuotasOfWriter(read_limits, living)
    store.feed.follow(lambda _: quotas.reconfigure(), frozenset(types))
    return quotas


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def _encode_report(process: int, kind: int, report: Report) -> bytes:
    packed: bytes = msgpack.packb((process, kind, *report))
    return packed


def _decode_report(body: bytes) -> tuple[int, int, Report]:
    process, kind, seen, demands, leaving = msgpack.unpackb(body)
    return process, kind, Report(seen, {quota: Demand(*one) for quota, one in demands.items()}, leaving)


def _encode_order(order: Order) -> bytes:
    packed: bytes = msgpack.packb(order)
    return packed


def _decode_order(body: bytes) -> Order:
    number, changes = msgpack.unpackb(body)
    return Order(number, {quota: Change(*one) for quota, one in changes.items()})
