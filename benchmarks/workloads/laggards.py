"""Watchers that are behind: stalled beside healthy ones, and one that has missed a hundred thousand events."""

from __future__ import annotations

import statistics
from functools import partial

from benchmarks.reports.measurement import Measurement
from benchmarks.servers.memory import memory
from benchmarks.servers.site import Site
from benchmarks.watchers.collection import Scene
from benchmarks.watchers.controller import Audience
from benchmarks.watchers.probe import Probe
from benchmarks.watchers.requests import Deliver, Open
from benchmarks.workloads.workload import Skipped, Workload

STEP = 50  # events written at once while stalled watchers fall behind
# Bytes that kernels hold for a watcher that does not read, both ends of the connection taken together.
HELD = 4 << 20
WRITERS = 32
FILLING = 64


def stalled(site: Site, *, work: str, tls: bool) -> Measurement:
    """As many stalled watchers as healthy ones: what the healthy notice, what the server holds, who gets what."""
    if not site.target.pids:
        raise Skipped("no process ids were given")
    count, scene = site.sizes.watchers, Scene(site, work)
    with scene.audience(tls=tls, watchers=2 * count) as audience:
        audience.open(Open(count, scene.watches()))
        audience.deliver(Deliver(STEP))
        before = _latencies(site, audience)
        audience.open(Open(count, scene.watches(), stalled=True))
        held = memory(site.target.pids)
        behind = _fall_behind(site, audience)
        beside = _latencies(site, audience)
        grown = memory(site.target.pids)
        released = audience.release()
        after = _latencies(site, audience)
    alone = statistics.mean(each["p99"] for each in (before, after))
    figures = {f"{name}_ms": value for name, value in beside.items()}
    # Without the journal's mapped pages: those are of the writes, watched or not.
    figures |= {"p99_ratio": round(beside["p99"] / alone, 2)}
    figures |= {"grown_mb": round(grown.anonymous_mb - held.anonymous_mb, 1)}
    figures |= {"rate": round(released.deliveries / released.seconds, 1)}
    notes = {
        "stalled": count,
        "healthy": count,
        "events_missed": behind,
        "grown_with_mapped_pages_mb": round(grown.pss_mb - held.pss_mb, 1),
        "p99_ms_before": before["p99"],
        "p99_ms_after": after["p99"],
        "delivered_when_they_read_again": released.deliveries,
        "seconds_until_all_had_everything": round(released.seconds, 3),
    }
    return Measurement(work, figures, notes)


def _latencies(site: Site, audience: Audience) -> dict[str, float]:
    """One event at a time, to those who read."""
    sizes = site.sizes
    order = Deliver(max(10, sizes.deliveries // sizes.watchers))
    rounds = [audience.deliver(order).latency_ms for _ in range(sizes.rounds)]
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def _fall_behind(site: Site, audience: Audience) -> int:
    """Write more than the kernels hold for a connection; the number of events."""
    events = min(HELD // 1275, site.sizes.burst * 4) // STEP * STEP or STEP
    audience.deliver(Deliver(events, step=STEP, writers=WRITERS))
    return events


def catch_up(site: Site, *, work: str, tls: bool) -> Measurement:
    """One watcher resumes far back; others go on with what they do."""
    missed, scene = site.sizes.missed, Scene(site, work)
    version = scene.version()
    with scene.audience(tls=tls, watchers=1) as audience:
        audience.deliver(Deliver(missed, step=missed, writers=FILLING))
        probe = Probe(*scene.object)
        try:
            watch = Open(1, scene.watches(version=version), missed=missed)
            done = audience.perform(watch, meanwhile=probe)
        finally:
            probe.close()
    figures = {
        "rate": round(done.deliveries / done.seconds, 1),
        "cpu_us": round(done.server_cpu / done.deliveries * 1e6, 2),
        "seconds": round(done.seconds, 3),
    }
    if others := probe.summary():
        figures["others_p99_ms"] = others["p99"]
    return Measurement(work, figures, {"missed": missed, "others_ms": others})


LAGGARDS: tuple[Workload[Site], ...] = (
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
