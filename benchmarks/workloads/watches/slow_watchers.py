"""Watchers that are behind: stalled ones beside healthy ones, and one that has missed a hundred thousand events."""

from __future__ import annotations

import dataclasses
import statistics
from functools import partial

from benchmarks.loads.job import HTTP1
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.servers.memory import memory
from benchmarks.watchers.background_gets import BackgroundGets
from benchmarks.watchers.collection import WatchedCollection
from benchmarks.watchers.commands import Deliver, Open
from benchmarks.watchers.watcher_process import WatcherProcess
from benchmarks.workloads.workload import Skipped, Workload

STEP = 50  # events written at once while stalled watchers fall behind
# Bytes that the kernel buffers for a watcher that does not read, at both ends of the connection together.
BUFFERED = 4 << 20
WRITERS = 32
FILL_CONNECTIONS = 64


def stalled(
    server: MeasuredServer,
    *,
    work: str,
    tls: bool,
    transport: str = HTTP1,
    per_connection: int = 1,
    by_window: bool = False,
) -> Measurement:
    """As many stalled watchers as healthy ones: latency of the healthy, memory of the server, delivery to all.

    Stalled ones do not read or, `by_window`, have used up the windows of their streams.
    """
    if not server.endpoint.pids:
        raise Skipped("no process ids were given")
    count, collection = server.sizes.watchers, WatchedCollection(server, work)
    with collection.start_watchers(tls=tls, sockets=2 * count) as process:
        healthy = Open(count, collection.watches(), transport=transport, per_connection=per_connection)
        process.open(healthy)
        process.deliver(Deliver(STEP))
        before = _latencies(server, process)
        process.open(
            dataclasses.replace(healthy, paths=collection.watches(), stalled=True, by_window=by_window)
        )
        base = memory(server.endpoint.pids)
        behind = _fall_behind(server, process)
        beside = _latencies(server, process)
        grown = memory(server.endpoint.pids)
        released = process.release()
        after = _latencies(server, process)
    alone = statistics.mean(each["p99"] for each in (before, after))
    figures = {f"{name}_ms": value for name, value in beside.items()}
    # Without mapped pages of the journal: the writes need those, watched or not.
    figures |= {"p99_ratio": round(beside["p99"] / alone, 2)}
    figures |= {"grown_mb": round(grown.anonymous_mb - base.anonymous_mb, 1)}
    figures |= {"rate": round(released.deliveries / released.seconds, 1)}
    notes = {
        "transport": transport,
        "per_connection": per_connection,
        "stalled": count,
        "healthy": count,
        "events_missed": behind,
        "grown_with_mapped_pages_mb": round(grown.pss_mb - base.pss_mb, 1),
        "p99_ms_before": before["p99"],
        "p99_ms_after": after["p99"],
        "delivered_when_they_read_again": released.deliveries,
        "seconds_until_all_had_everything": round(released.seconds, 3),
    }
    return Measurement(work, figures, notes)


def _latencies(server: MeasuredServer, process: WatcherProcess) -> dict[str, float]:
    """Latencies of one event at a time, delivered to the watchers that read."""
    sizes = server.sizes
    command = Deliver(max(10, sizes.deliveries // sizes.watchers))
    rounds = [process.deliver(command).latency_ms for _ in range(sizes.rounds)]
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def _fall_behind(server: MeasuredServer, process: WatcherProcess) -> int:
    """Write more than the kernel buffers for a connection; returns the number of events."""
    events = min(BUFFERED // 1275, server.sizes.burst * 4) // STEP * STEP or STEP
    process.deliver(Deliver(events, step=STEP, writers=WRITERS))
    return events


def catch_up(server: MeasuredServer, *, work: str, tls: bool, transport: str = HTTP1) -> Measurement:
    """One watcher resumes from a version far back while another client sends gets."""
    missed, collection = server.sizes.missed, WatchedCollection(server, work)
    version = collection.version()
    with collection.start_watchers(tls=tls, sockets=1) as process:
        process.deliver(Deliver(missed, step=missed, writers=FILL_CONNECTIONS))
        gets = BackgroundGets(*collection.object)
        try:
            watch = Open(1, collection.watches(version=version), missed=missed, transport=transport)
            done = process.perform(watch, meanwhile=gets)
        finally:
            gets.close()
    figures = {
        "rate": round(done.deliveries / done.seconds, 1),
        "cpu_us": round(done.server_cpu / done.deliveries * 1e6, 2),
        "seconds": round(done.seconds, 3),
    }
    if others := gets.summary():
        figures["others_p99_ms"] = others["p99"]
    return Measurement(work, figures, {"missed": missed, "others_ms": others})


SLOW_WATCHERS: tuple[Workload[MeasuredServer], ...] = (
    Workload(
        "stalled-plain",
        "{watchers} stalled watchers beside {watchers} healthy ones, plain",
        partial(stalled, work="stalled-plain", tls=False),
    ),
    Workload(
        "stalled",
        "{watchers} stalled watchers beside {watchers} healthy ones, TLS",
        partial(stalled, work="stalled", tls=True),
    ),
    Workload(
        "catch-up-plain",
        "a watcher {missed} events behind, plain",
        partial(catch_up, work="catch-up-plain", tls=False),
    ),
    Workload(
        "catch-up", "a watcher {missed} events behind, TLS", partial(catch_up, work="catch-up", tls=True)
    ),
)
