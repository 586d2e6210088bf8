"""Delivers one event or a burst of events to many watchers, by the server and by the bare loop of sends in turn.

A round has three steps: the watched writes, the same writes to a collection that nobody watches, and the bare loop to
as many sockets. Measuring them right after each other shows what a delivery costs without its share of the write, and
how that compares with a bare send; with several watches on a connection, the loop sends as many events at once to as
many sockets. `compare` lets fan-outs over several transports take turns by rounds. Latency is the time from sending a
write, its commit included, until the watcher has the event.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from benchmarks.baselines.send_loop import bare_loop
from benchmarks.loads.job import HTTP1
from benchmarks.loads.latency import over_rounds
from benchmarks.reports.measurement import Measurement, with_h1_ratio
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.watchers.background_gets import BackgroundGets
from benchmarks.watchers.collection import WatchedCollection
from benchmarks.watchers.commands import Assignment, CommandResult, Deliver, Open
from benchmarks.watchers.watcher_process import WatcherProcess

WRITERS = 32  # connections that write a burst: enough to fill commits
MIN_EVENTS = 10  # of one round
WARMUP = 5


@dataclass(frozen=True, slots=True)
class Shape:
    """How many clients watch in which way, and how many events are written at once."""

    watchers: int
    tls: bool
    groups: int = 1
    transport: str = HTTP1
    per_connection: int = 1  # watches of one connection
    stalled: int = 0  # additional watchers that do not read
    burst: int = 1  # events written at once
    with_gets: bool = False  # also measure gets of another client during the deliveries

    @property
    def sockets(self) -> int:
        return -(-(self.watchers + self.stalled) // self.per_connection)


@dataclass(frozen=True, slots=True)
class Round:
    ours: CommandResult
    watchers: int
    write: float  # CPU seconds of a write to the collection that nobody watches
    baseline: float  # microseconds of a bare send, per event that it carries

    @property
    def delivery_us(self) -> float:
        """CPU of a delivery without its share of the write."""
        return cpu_us(self.ours) - self.write / self.watchers * 1e6


class FanOut:
    def __init__(self, server: MeasuredServer, work: str, shape: Shape) -> None:
        self._server, self._work, self._shape = server, work, shape
        self._collection = WatchedCollection(server, work)
        self._stack = ExitStack()
        ours = self._collection.start_watchers(tls=shape.tls, sockets=shape.sockets)
        self._ours = self._stack.enter_context(ours)
        unwatched = WatchedCollection(server, f"{work}-quiet").start_watchers(tls=shape.tls, sockets=0)
        self._unwatched = self._stack.enter_context(unwatched)

    def measure(self) -> Measurement:
        with self:
            rounds = [self.round() for _ in range(self._server.sizes.rounds)]
            return self.measurement(rounds)

    def __enter__(self) -> FanOut:
        """Open the watches and start the bare loop."""
        with ExitStack() as opened:
            opened.push(self._stack)
            self._unwatched.deliver(Deliver(WARMUP))
            self._open_watches()
            self._send_loop = self._start_send_loop(self._event_size())
            opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def round(self) -> Round:
        command, shape = self._command(), self._shape
        ours, unwatched = self._ours.deliver(command), self._unwatched.deliver(command)
        # The bare loop sends one event at a time, however many the server combines in one send.
        baseline = self._send_loop.deliver(
            Deliver(max(MIN_EVENTS, self._server.sizes.deliveries // shape.watchers))
        )
        bare_us = cpu_us(baseline) / shape.per_connection
        return Round(ours, shape.watchers, unwatched.server_cpu / command.events, bare_us)

    def _open_watches(self) -> None:
        shape = self._shape
        watches = self._collection.watches(groups=shape.groups)
        command = Open(
            shape.watchers, watches, transport=shape.transport, per_connection=shape.per_connection
        )
        self._ours.open(command)
        if shape.stalled:
            self._ours.open(dataclasses.replace(command, watchers=shape.stalled, stalled=True))

    def _event_size(self) -> int:
        done = self._ours.deliver(Deliver(WARMUP))
        return round(done.bytes_received / done.deliveries)

    def _start_send_loop(self, size: int) -> WatcherProcess:
        shape = self._shape
        bare = bare_loop(self._server.options, size * shape.per_connection, tls=shape.tls)
        endpoint = self._stack.enter_context(bare)
        process = self._stack.enter_context(WatcherProcess(Assignment(endpoint, endpoint, "/")))
        process.open(Open(max(1, shape.watchers // shape.per_connection), ("/",)))
        process.deliver(Deliver(WARMUP))
        return process

    def _command(self) -> Deliver:
        shape = self._shape
        if shape.burst > 1:
            return Deliver(shape.burst, step=shape.burst, writers=WRITERS)
        return Deliver(max(MIN_EVENTS, self._server.sizes.deliveries // shape.watchers))

    def _measure_gets(self) -> dict[str, float]:
        gets = BackgroundGets(*self._collection.object)
        try:
            self._ours.deliver(self._command(), meanwhile=gets)
        finally:
            gets.close()
        return gets.summary()

    def measurement(self, rounds: Sequence[Round]) -> Measurement:
        ours = [each.ours for each in rounds]
        others = self._measure_gets() if self._shape.with_gets else {}
        figures = {
            "rate": round(statistics.median(done.deliveries / done.seconds for done in ours), 1),
            "cpu_us": round(statistics.median(map(cpu_us, ours)), 2),
            "delivery_us": round(statistics.median(each.delivery_us for each in rounds), 2),
            "floor_ratio": round(statistics.median(each.delivery_us / each.baseline for each in rounds), 2),
        }
        figures |= {
            f"{name}_ms": value for name, value in over_rounds(done.latency_ms for done in ours).items()
        }
        if last := over_rounds(done.last_ms for done in ours):
            figures |= {"last_ms": last["p50"], "all_ms": last["max"]}
        if others:
            figures |= {"others_p99_ms": others["p99"]}
        return Measurement(self._work, figures, self._notes(rounds, others))

    def _notes(self, rounds: Sequence[Round], others: dict[str, float]) -> dict[str, Any]:
        shape, ours = self._shape, [each.ours for each in rounds]
        seconds = sum(done.seconds for done in ours)
        return {
            "watchers": shape.watchers,
            "transport": shape.transport,
            "per_connection": shape.per_connection,
            "groups": shape.groups,
            "stalled": shape.stalled,
            "events_of_a_round": self._command().events,
            "bytes_of_an_event": round(ours[0].bytes_received / ours[0].deliveries),
            "write_us": round(statistics.median(each.write for each in rounds) * 1e6, 1),
            "floors": {"bare-loop": round(statistics.median(each.baseline for each in rounds), 2)},
            "cpu_us_of_rounds": [round(cpu_us(done), 2) for done in ours],
            "delivery_us_of_rounds": [round(each.delivery_us, 2) for each in rounds],
            "floor_us_of_rounds": [round(each.baseline, 2) for each in rounds],
            "write_ms": ours[-1].write_ms,
            "others_ms": others,
            "generator_busy": round(sum(done.generator_cpu for done in ours) / seconds, 2),
            "server_busy": round(sum(done.server_cpu for done in ours) / seconds, 2),
        }


def compare(server: MeasuredServer, shapes: Mapping[str, Shape], rounds: int) -> list[Measurement]:
    """Fan-outs by workload that take turns by rounds; the first is HTTP/1.1, with which the others are compared."""
    with ExitStack() as stack:
        fanouts = [stack.enter_context(FanOut(server, work, shape)) for work, shape in shapes.items()]
        turns = [[fanout.round() for fanout in fanouts] for _ in range(rounds)]
        by_fanout = list(zip(*turns, strict=True))
        first, *others = [fanout.measurement(own) for fanout, own in zip(fanouts, by_fanout, strict=True)]
        delivery = [[each.delivery_us for each in own] for own in by_fanout]
        return [
            first,
            *(with_h1_ratio(each, own, delivery[0]) for each, own in zip(others, delivery[1:], strict=True)),
        ]


def cpu_us(done: CommandResult) -> float:
    return done.server_cpu / done.deliveries * 1e6
