"""One event, or a burst of them, to many watchers: the server and the bare loop of sends in turn, round by round.

A round is three in a row: the watched writes, the same writes to a collection that nobody watches, and the bare loop
to as many sockets. So what a delivery costs without its share of the write, and how that compares with a bare send,
are told by neighbours in time. Latency counts from the sending of a write, its commit included, to the watcher that
has the event.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.baselines.send_loop import bare_loop
from benchmarks.loads.latency import over_rounds
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.site import Site
from benchmarks.watchers.collection import Scene
from benchmarks.watchers.controller import Audience
from benchmarks.watchers.probe import Probe
from benchmarks.watchers.requests import Assignment, Deliver, Done, Open

WRITERS = 32  # of a burst: enough that commits are full
FEWEST = 10  # events of one round
WARMUP = 5


@dataclass(frozen=True, slots=True)
class Shape:
    """Who watches how, and what is written."""

    watchers: int
    tls: bool
    groups: int = 1
    websocket: bool = False
    stalled: int = 0  # besides, watchers that do not read
    burst: int = 1  # events written at once
    probed: bool = False  # see what becomes of other requests


@dataclass(frozen=True, slots=True)
class Round:
    ours: Done
    watchers: int
    write: float  # CPU seconds of a write that nobody watches
    floor: float  # microseconds of one bare send

    @property
    def delivery_us(self) -> float:
        """CPU of a delivery without its share of the write."""
        return cpu_us(self.ours) - self.write / self.watchers * 1e6


class FanOut:
    def __init__(self, site: Site, work: str, shape: Shape) -> None:
        self._site, self._work, self._shape = site, work, shape
        self._scene = Scene(site, work)
        self._stack = ExitStack()
        everybody = shape.watchers + shape.stalled
        self._ours = self._stack.enter_context(self._scene.audience(tls=shape.tls, watchers=everybody))
        quiet = Scene(site, f"{work}-quiet").audience(tls=shape.tls, watchers=0)
        self._quiet = self._stack.enter_context(quiet)

    def measure(self) -> Measurement:
        with self._stack:
            self._quiet.deliver(Deliver(WARMUP))
            self._gather()
            bare = self._bare(self._event_size())
            rounds = [self._round(bare) for _ in range(self._site.sizes.rounds)]
            others = self._others() if self._shape.probed else {}
            return self._measurement(rounds, others)

    def _round(self, bare: Audience) -> Round:
        order = self._order()
        ours, quiet = self._ours.deliver(order), self._quiet.deliver(order)
        # One event a send, however many of ours travel together.
        floor = bare.deliver(Deliver(max(FEWEST, self._site.sizes.deliveries // self._shape.watchers)))
        return Round(ours, self._shape.watchers, quiet.server_cpu / order.events, cpu_us(floor))

    def _gather(self) -> None:
        shape = self._shape
        watches = self._scene.watches(groups=shape.groups)
        self._ours.open(Open(shape.watchers, watches, websocket=shape.websocket))
        if shape.stalled:
            self._ours.open(Open(shape.stalled, watches, websocket=shape.websocket, stalled=True))

    def _event_size(self) -> int:
        done = self._ours.deliver(Deliver(WARMUP))
        return round(done.bytes_received / done.deliveries)

    def _bare(self, size: int) -> Audience:
        shape = self._shape
        target = self._stack.enter_context(bare_loop(self._site.options, size, tls=shape.tls))
        audience = self._stack.enter_context(Audience(Assignment(target, target, "/")))
        audience.open(Open(shape.watchers, ("/",)))
        audience.deliver(Deliver(WARMUP))
        return audience

    def _order(self) -> Deliver:
        shape = self._shape
        if shape.burst > 1:
            return Deliver(shape.burst, step=shape.burst, writers=WRITERS)
        return Deliver(max(FEWEST, self._site.sizes.deliveries // shape.watchers))

    def _others(self) -> dict[str, float]:
        probe = Probe(*self._scene.object)
        try:
            self._ours.deliver(self._order(), meanwhile=probe)
        finally:
            probe.close()
        return probe.summary()

    def _measurement(self, rounds: list[Round], others: dict[str, float]) -> Measurement:
        ours = [each.ours for each in rounds]
        figures = {
            "rate": round(statistics.median(done.deliveries / done.seconds for done in ours), 1),
            "cpu_us": round(statistics.median(map(cpu_us, ours)), 2),
            "delivery_us": round(statistics.median(each.delivery_us for each in rounds), 2),
            "floor_ratio": round(statistics.median(each.delivery_us / each.floor for each in rounds), 2),
        }
        figures |= {
            f"{name}_ms": value for name, value in over_rounds(done.latency_ms for done in ours).items()
        }
        if last := over_rounds(done.last_ms for done in ours):
            figures |= {"last_ms": last["p50"], "all_ms": last["max"]}
        if others:
            figures |= {"others_p99_ms": others["p99"]}
        return Measurement(self._work, figures, self._notes(rounds, others))

    def _notes(self, rounds: list[Round], others: dict[str, float]) -> dict[str, Any]:
        shape, ours = self._shape, [each.ours for each in rounds]
        seconds = sum(done.seconds for done in ours)
        return {
            "watchers": shape.watchers,
            "groups": shape.groups,
            "stalled": shape.stalled,
            "events_of_a_round": self._order().events,
            "bytes_of_an_event": round(ours[0].bytes_received / ours[0].deliveries),
            "write_us": round(statistics.median(each.write for each in rounds) * 1e6, 1),
            "floors": {"bare-loop": round(statistics.median(each.floor for each in rounds), 2)},
            "cpu_us_of_rounds": [round(cpu_us(done), 2) for done in ours],
            "delivery_us_of_rounds": [round(each.delivery_us, 2) for each in rounds],
            "floor_us_of_rounds": [round(each.floor, 2) for each in rounds],
            "write_ms": ours[-1].write_ms,
            "others_ms": others,
            "generator_busy": round(sum(done.generator_cpu for done in ours) / seconds, 2),
            "server_busy": round(sum(done.server_cpu for done in ours) / seconds, 2),
        }


def cpu_us(done: Done) -> float:
    return done.server_cpu / done.deliveries * 1e6
