"""Watchers that come: how fast they are taken in, what each costs at rest, and thousands that come back at once."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.reports.measurement import Measurement
from benchmarks.servers.memory import memory
from benchmarks.servers.server import Server, fresh_folder
from benchmarks.servers.site import Site
from benchmarks.watchers.collection import Scene
from benchmarks.watchers.requests import Deliver, Open
from benchmarks.workloads.workload import Skipped, Workload

SETTLE = 1.0
FIRST = 50  # watchers before the reading of memory: what is loaded once is not theirs
MISSED = 100  # events written while everybody is away
WRITERS = 16
# Handshakes under way at once. One process shakes all hands on this side, at the server's own pace: with more it
# would be the one who is too slow for the server's time limit, which thousands of clients are not.
SHAKING = 256


def idle(site: Site, *, work: str, tls: bool) -> Measurement:
    """Watchers of a server that has served none before: memory that others gave back would hide theirs."""
    if not site.target.pids:
        raise Skipped("no process ids were given")
    count = site.sizes.many
    with _own_site(site) as fresh:
        scene = Scene(fresh, work)
        with scene.audience(tls=tls, watchers=count + FIRST) as audience:
            audience.open(Open(FIRST, scene.watches()))
            before = _settled(fresh)
            done = audience.open(Open(count, scene.watches()))
            held = _settled(fresh) - before
    figures = {
        "rate": round(count / done.seconds, 1),
        "cpu_us": round(done.server_cpu / count * 1e6, 2),
        "kb": round(held * 1024 / count, 2),
    }
    return Measurement(work, figures, {"watchers": count})


def _settled(site: Site) -> float:
    time.sleep(SETTLE)
    return memory(site.target.pids).pss_mb


def reconnect(site: Site, *, work: str, tls: bool) -> Measurement:
    """The server restarts and everybody comes back at once, each with the version it had: nobody lists."""
    count = site.sizes.many
    with _own_site(site) as first:
        scene = Scene(first, work)
        version = scene.version()
        with scene.audience(tls=tls, watchers=count) as audience:
            audience.deliver(Deliver(MISSED, step=MISSED, writers=WRITERS))
        with _restarted(first) as again:
            scene = scene.at(again)
            with scene.audience(tls=tls, watchers=count) as audience:
                watches = scene.watches(version=version)
                done = audience.open(Open(count, watches, missed=MISSED, window=SHAKING if tls else count))
    figures = {
        "seconds": round(done.seconds, 3),
        "cpu_us": round(done.server_cpu / count * 1e6, 2),
        **{f"{name}_ms": value for name, value in done.latency_ms.items()},
    }
    return Measurement(work, figures, {"watchers": count, "missed": MISSED, "deliveries": done.deliveries})


@contextmanager
def _own_site(site: Site) -> Iterator[Site]:
    """A server of ours that has done nothing yet; one that was started by somebody else is taken as it is."""
    if site.server is None:
        yield site
        return
    options = site.options
    folder = fresh_folder(options.scratch, "watched")
    server = Server(folder, dialect=options.dialect, command=options.rewound)
    try:
        yield Site(server.target, options, name=site.name, server=server)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _restarted(site: Site) -> Iterator[Site]:
    if site.server is None:
        yield site
        return
    site.server.stop()
    options = site.options
    server = Server(site.server.folder, dialect=options.dialect, command=options.rewound)
    try:
        yield Site(server.target, options, name=site.name, server=server)
    finally:
        server.stop()


ARRIVALS: tuple[Workload[Site], ...] = (
    Workload(
        "idle-plain", "a watcher at rest, {many} of them, plain", partial(idle, work="idle-plain", tls=False)
    ),
    Workload("idle", "a watcher at rest, {many} of them, TLS", partial(idle, work="idle", tls=True)),
    Workload(
        "reconnect-plain",
        "{many} watchers come back after a restart, plain",
        partial(reconnect, work="reconnect-plain", tls=False),
    ),
    Workload(
        "reconnect",
        "{many} watchers come back after a restart, TLS",
        partial(reconnect, work="reconnect", tls=True),
    ),
)
