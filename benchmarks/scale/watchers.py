"""Thousands of watches of one server: memory of each, CPU of a start and of a delivery, time to the last watcher.

Three shapes: all watch one collection (one group, the same bytes for all), over plain HTTP and over TLS, and each has
a selector of its own, over TLS, as kubelets do (as many groups as watchers, of which a write concerns few). Memory is
that of all processes of the server. A process can open as many sockets as the hard limit of open files allows, here
and there.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.loads.job import Lane, run_lane
from benchmarks.options import parse
from benchmarks.reports.measurement import from_load
from benchmarks.servers.files import OTHER_FILES, raise_file_limit
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.servers.memory import memory
from benchmarks.servers.server_process import ServerProcess, fresh_folder, worker_flags
from benchmarks.watchers.collection import WatchedCollection
from benchmarks.watchers.commands import Deliver, Open
from benchmarks.watchers.watcher_process import WatcherProcess

Figures = dict[str, Any]
SHAPES = ("plain", "tls", "own")
FIRST = 50  # watchers before the first reading of memory, so that memory allocated once is not counted
SETTLE_SECONDS = 2.0
EVENTS = 20
WINDOW = 256  # connections that are being opened at a time


def measure(
    scratch: Path, watchers: int, shape: str, workers: int, report: Callable[[str], None], command: str = ""
) -> tuple[str, Figures]:
    """The name of the measurement and its figures."""
    fits = raise_file_limit() - OTHER_FILES - FIRST
    if watchers > fits:
        report(f"{watchers:,} watchers: {fits:,} fit below the limit of open files")
        watchers = fits
    with served(scratch, workers, command) as server:
        figures = {"watchers": watchers, "workers": workers, "shape": shape}
        figures |= _measure(server, watchers, shape)
    report(f"{watchers:,} watchers, {shape}, {workers} workers: {figures['total_mb']:.0f} MB")
    return f"{shape}-{watchers}-{workers}", figures


@contextmanager
def served(scratch: Path, workers: int, command: str = "") -> Iterator[MeasuredServer]:
    """A new server with this many workers, of this checkout or of `command`; its folder is deleted afterwards."""
    folder = fresh_folder(scratch, "scale-watchers")
    try:
        process = ServerProcess(folder, command=command, flags=worker_flags(workers))
        try:
            yield MeasuredServer(process.endpoint, parse(["--scratch", str(scratch)]), process=process)
        finally:
            process.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(server: MeasuredServer, watchers: int, shape: str) -> Figures:
    collection = WatchedCollection(server, f"scale-{shape}")
    with collection.start_watchers(tls=shape != "plain", sockets=watchers + FIRST) as process:
        write_us = _write_us(server, collection.path)
        watches = collection.watches()
        if shape == "own":
            watches = tuple(
                f"{watches[0]}&labelSelector=node%3D{number}" for number in range(watchers + FIRST)
            )
        command = Open(FIRST, watches[:FIRST], window=WINDOW)
        process.open(command)
        before = _at_rest(server)
        opened = process.open(dataclasses.replace(command, watchers=watchers, paths=watches[-watchers:]))
        after = _at_rest(server)
        figures = {
            "kb": round((after - before) * 1024 / watchers, 2),
            "total_mb": after,
            "before_mb": before,
            "connect_us": round(opened.server_cpu / watchers * 1e6, 1),
            "write_us": write_us,
        }
        if shape == "own":
            return figures | {"write_beside_us": _write_us(server, collection.path)}
        return figures | _deliveries(process, watchers, write_us) | {"delivered_mb": _at_rest(server)}


def _deliveries(process: WatcherProcess, watchers: int, write_us: float) -> Figures:
    process.deliver(Deliver(2))
    done = process.deliver(Deliver(EVENTS))
    return {
        "delivery_us": round((done.server_cpu * 1e6 - EVENTS * write_us) / done.deliveries, 2),
        "last_ms": done.last_ms["p50"],
        "slowest_ms": done.last_ms["max"],
        "client_us": round(done.generator_cpu / done.deliveries * 1e6, 2),
    }


def _write_us(server: MeasuredServer, path: str) -> float:
    """CPU of a write to an object that no watcher's selector matches, one at a time."""
    body, media = '{"data":{"number":"NUMBER"}}', "application/merge-patch+json"
    plan = {"plan": "patch", "paths": [f"{path}/w-00"], "media": media, "body": body}
    done = run_lane(Lane(server.endpoint, plan, 1), 0.5, rounds=3, warmup=0.2)
    return float(from_load("write", done, 1).figures["cpu_us"])


def _at_rest(server: MeasuredServer) -> float:
    time.sleep(SETTLE_SECONDS)
    return memory(server.endpoint.pids).pss_mb
