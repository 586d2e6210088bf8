"""Fan-out: one event at a time or a burst, to few watchers or many, over each transport, in one group or sixteen.

The one-at-a-time workloads write the next event when every watcher has the previous one, so a delivery is a send. In
a burst the writers do not wait, and one send carries several events.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.watchers.collection import GROUPS
from benchmarks.watchers.commands import WEBSOCKET
from benchmarks.watchers.fanout import FanOut, Shape
from benchmarks.workloads.workload import Workload

ShapeOf = Callable[[Sizes], Shape]


def _workload(name: str, title: str, shape_of: ShapeOf) -> Workload[MeasuredServer]:
    def run(server: MeasuredServer) -> Measurement:
        return FanOut(server, name, shape_of(server.sizes)).measure()

    return Workload(name, title, run)


def _few(sizes: Sizes) -> Shape:
    return Shape(sizes.few, tls=True)


def _usual(sizes: Sizes) -> Shape:
    return Shape(sizes.watchers, tls=True)


def _crowd(sizes: Sizes) -> Shape:
    return Shape(sizes.crowd, tls=True, with_gets=True)


def _groups(sizes: Sizes) -> Shape:
    return Shape(sizes.watchers, tls=True, groups=GROUPS)


def _websocket(sizes: Sizes) -> Shape:
    return Shape(sizes.watchers, tls=True, transport=WEBSOCKET)


def _tenth(sizes: Sizes) -> Shape:
    stalled = sizes.watchers // 10
    return Shape(sizes.watchers - stalled, tls=True, stalled=stalled)


def _burst(sizes: Sizes) -> Shape:
    return Shape(sizes.watchers, tls=True, burst=sizes.burst, with_gets=True)


def _plain(shape_of: ShapeOf) -> ShapeOf:
    return lambda sizes: dataclasses.replace(shape_of(sizes), tls=False)


FANOUTS: tuple[Workload[MeasuredServer], ...] = (
    _workload("fanout-plain-few", "an event to {few} watchers, plain", _plain(_few)),
    _workload("fanout-plain", "an event to {watchers} watchers, plain", _plain(_usual)),
    _workload("fanout-plain-crowd", "an event to {crowd} watchers, plain", _plain(_crowd)),
    _workload("fanout-few", "an event to {few} watchers, TLS", _few),
    _workload("fanout", "an event to {watchers} watchers, TLS", _usual),
    _workload("fanout-crowd", "an event to {crowd} watchers, TLS", _crowd),
    _workload("fanout-groups", f"an event to {{watchers}} watchers in {GROUPS} groups, TLS", _groups),
    _workload("fanout-websocket", "an event to {watchers} WebSockets, TLS", _websocket),
    _workload("fanout-plain-websocket", "an event to {watchers} WebSockets, plain", _plain(_websocket)),
    _workload("fanout-tenth", "an event to {watchers} watchers, a tenth stalled, TLS", _tenth),
    _workload("burst-plain", "{burst} events at once to {watchers} watchers, plain", _plain(_burst)),
    _workload("burst", "{burst} events at once to {watchers} watchers, TLS", _burst),
)
