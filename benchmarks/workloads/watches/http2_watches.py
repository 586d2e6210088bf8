"""Watches over HTTP/2 beside HTTP/1.1: one watch per connection, and ten.

Fan-outs and bursts take turns by rounds with the same over HTTP/1.1, each with a collection of its own. Stalled
watchers are of two kinds: sockets that nobody reads, and streams whose windows are used up on connections that are
read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.loads.job import HTTP1, HTTP2
from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.watchers.fanout import Shape, compare
from benchmarks.workloads.connecting import idle
from benchmarks.workloads.http2 import SPLIT, TEN
from benchmarks.workloads.watches.slow_watchers import catch_up, stalled
from benchmarks.workloads.workload import Comparison, Workload

# Suffix of the workload's name, its title, transport, watches per connection.
TRANSPORTS = (
    ("h1", "HTTP/1.1", HTTP1, 1),
    ("h2", "HTTP/2", HTTP2, 1),
    ("h2-10", "HTTP/2, ten a connection", HTTP2, TEN),
)


@dataclass(frozen=True, slots=True)
class _Compared:
    work: str
    shape_of: Callable[[Sizes], Shape]
    split: int  # rounds for each of the usual ones

    def __call__(self, server: MeasuredServer) -> Sequence[Measurement]:
        shape = self.shape_of(server.sizes)
        shapes = {
            f"{self.work}-{suffix}": dataclasses.replace(shape, transport=transport, per_connection=count)
            for suffix, _, transport, count in TRANSPORTS
        }
        return compare(server, shapes, server.sizes.rounds * self.split)


def _comparison(
    work: str, title: str, shape_of: Callable[[Sizes], Shape], *, split: int
) -> Comparison[MeasuredServer]:
    titles = {f"{work}-{suffix}": f"{title}, {transport}" for suffix, transport, _, _ in TRANSPORTS}
    return Comparison(f"{work}-h2", titles, _Compared(work, shape_of, split))


def _usual(sizes: Sizes, *, tls: bool) -> Shape:
    return Shape(sizes.watchers, tls=tls)


def _burst(sizes: Sizes, *, tls: bool) -> Shape:
    return Shape(sizes.watchers, tls=tls, burst=sizes.burst)


def _both(tls: bool) -> tuple[Comparison[MeasuredServer] | Workload[MeasuredServer], ...]:
    """The workloads with or without TLS."""
    plain, end = ("", ", TLS") if tls else ("-plain", ", plain")

    def stalled_streams(
        name: str, title: str, *, per_connection: int, by_window: bool
    ) -> Workload[MeasuredServer]:
        run = partial(
            stalled, work=name, tls=tls, transport=HTTP2, per_connection=per_connection, by_window=by_window
        )
        return Workload(name, title + end, run)

    return (
        _comparison(
            f"fanout{plain}", f"an event to {{watchers}} watchers{end}", partial(_usual, tls=tls), split=SPLIT
        ),
        _comparison(
            f"burst{plain}",
            f"{{burst}} events at once to {{watchers}} watchers{end}",
            partial(_burst, tls=tls),
            split=1,
        ),
        stalled_streams(
            f"stalled{plain}-h2",
            "{watchers} unread HTTP/2 sockets beside {watchers} healthy watchers",
            per_connection=1,
            by_window=False,
        ),
        stalled_streams(
            f"stalled{plain}-h2-window",
            "{watchers} HTTP/2 streams without window beside {watchers} healthy watchers",
            per_connection=TEN,
            by_window=True,
        ),
        Workload(
            f"catch-up{plain}-h2",
            f"a watcher {{missed}} events behind, HTTP/2{end}",
            partial(catch_up, work=f"catch-up{plain}-h2", tls=tls, transport=HTTP2),
        ),
        Workload(
            f"idle{plain}-h2",
            f"an idle watcher, {{many}} of them, HTTP/2{end}",
            partial(idle, work=f"idle{plain}-h2", tls=tls, transport=HTTP2),
        ),
        Workload(
            f"idle{plain}-h2-10",
            f"an idle watcher, {{watchers}} of them, HTTP/2, ten a connection{end}",
            partial(idle, work=f"idle{plain}-h2-10", tls=tls, transport=HTTP2, per_connection=TEN),
        ),
    )


HTTP2_WATCHES = (*_both(tls=True), *_both(tls=False))
