"""The start of a server, and its memory before and after work."""

from __future__ import annotations

import shutil
import statistics
import time

from benchmarks.reports.measurement import Measurement
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.servers.memory import memory
from benchmarks.servers.server_process import ServerProcess, fresh_folder
from benchmarks.workloads.workload import Skipped, Workload

SETTLE_SECONDS = 1.0  # between ready and reading memory, as a user would find the server


def start_fresh(server: MeasuredServer) -> Measurement:
    """Starts with an empty data folder, which include creating keys and certificates."""
    return _starts(server, "start", again=False)


def start_again(server: MeasuredServer) -> Measurement:
    return _starts(server, "restart", again=True)


def _starts(server: MeasuredServer, work: str, *, again: bool) -> Measurement:
    if server.process is None:
        raise Skipped("the harness did not start this server")
    starts = [_start(server, again=again) for _ in range(server.sizes.starts)]
    walls, cpus = [round(wall, 3) for wall, _ in starts], [round(cpu, 3) for _, cpu in starts]
    figures = {"seconds": statistics.median(walls), "cpu_seconds": statistics.median(cpus)}
    return Measurement(work, figures, {"seconds_of_starts": walls, "cpu_seconds_of_starts": cpus})


def _start(server: MeasuredServer, *, again: bool) -> tuple[float, float]:
    """Wall and CPU seconds until ready."""
    options = server.options
    folder = fresh_folder(options.scratch, "start")
    try:
        for _ in range(2 if again else 1):
            process = ServerProcess(folder, dialect=options.dialect, command=options.rewound)
            process.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return process.ready_seconds, process.ready_cpu


def memory_idle(server: MeasuredServer) -> Measurement:
    time.sleep(SETTLE_SECONDS)
    return _memory(server, "memory-idle")


def memory_worked(server: MeasuredServer) -> Measurement:
    """After writes, gets and lists of the small collection, as the reference was measured."""
    return _memory(server, "memory-worked")


def memory_large(server: MeasuredServer) -> Measurement:
    server.collection(server.sizes.large)
    return _memory(server, "memory-large")


def _memory(server: MeasuredServer, work: str) -> Measurement:
    if not server.endpoint.pids:
        raise Skipped("no process ids were given")
    now = memory(server.endpoint.pids)
    return Measurement(work, {"mb": now.pss_mb, "anonymous_mb": now.anonymous_mb})


ON_IDLE_SERVER: tuple[Workload[MeasuredServer], ...] = (
    Workload("memory-idle", "memory, idle", memory_idle),
    Workload("start", "start to ready, empty folder", start_fresh),
    Workload("restart", "start to ready, existing folder", start_again),
)
AFTER_READS: tuple[Workload[MeasuredServer], ...] = (
    Workload("memory-worked", "memory, after writes and lists", memory_worked),
)
AFTER_PAGES: tuple[Workload[MeasuredServer], ...] = (
    Workload("memory-large", "memory, with {large} objects", memory_large),
)
