"""What a server costs before it does anything and afterwards: its start and its memory."""

from __future__ import annotations

import shutil
import statistics
import time

from benchmarks.reports.measurement import Measurement
from benchmarks.servers.memory import memory
from benchmarks.servers.server import Server, fresh_folder
from benchmarks.servers.site import Site
from benchmarks.workloads.workload import Skipped, Workload

SETTLE = 1.0  # seconds between ready and the reading of memory, as a user would find the server


def start_fresh(site: Site) -> Measurement:
    """First starts, each in an empty data folder: keys and certificates are made on the way."""
    return _starts(site, "start", again=False)


def start_again(site: Site) -> Measurement:
    return _starts(site, "restart", again=True)


def _starts(site: Site, work: str, *, again: bool) -> Measurement:
    if site.server is None:
        raise Skipped("this server was started by somebody else")
    taken = [_start(site, again=again) for _ in range(site.sizes.starts)]
    walls, cpus = [round(wall, 3) for wall, _ in taken], [round(cpu, 3) for _, cpu in taken]
    figures = {"seconds": statistics.median(walls), "cpu_seconds": statistics.median(cpus)}
    return Measurement(work, figures, {"seconds_of_starts": walls, "cpu_seconds_of_starts": cpus})


def _start(site: Site, *, again: bool) -> tuple[float, float]:
    """Seconds by the wall and of CPU until ready."""
    options = site.options
    folder = fresh_folder(options.scratch, "start")
    try:
        for _ in range(2 if again else 1):
            server = Server(folder, dialect=options.dialect, command=options.rewound)
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return server.ready_seconds, server.ready_cpu


def memory_idle(site: Site) -> Measurement:
    time.sleep(SETTLE)
    return _memory(site, "memory-idle")


def memory_worked(site: Site) -> Measurement:
    """After writes, gets and lists of the small collection: what the reference had done, too."""
    return _memory(site, "memory-worked")


def memory_large(site: Site) -> Measurement:
    site.collection(site.sizes.large)
    return _memory(site, "memory-large")


def _memory(site: Site, work: str) -> Measurement:
    if not site.target.pids:
        raise Skipped("no process ids were given")
    now = memory(site.target.pids)
    return Measurement(work, {"mb": now.pss_mb, "anonymous_mb": now.anonymous_mb})


BEFORE: tuple[Workload[Site], ...] = (
    Workload("memory-idle", "memory, idle", memory_idle),
    Workload("start", "start to ready, empty folder", start_fresh),
    Workload("restart", "start to ready, existing folder", start_again),
)
BETWEEN: tuple[Workload[Site], ...] = (
    Workload("memory-worked", "memory, after writes and lists", memory_worked),
)
AFTER: tuple[Workload[Site], ...] = (Workload("memory-large", "memory, with {large} objects", memory_large),)
