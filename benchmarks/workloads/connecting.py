"""Watchers that connect: how fast, what each costs while idle, and thousands that reconnect at once."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.loads.job import HTTP1
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.servers.memory import memory
from benchmarks.servers.server_process import ServerProcess, fresh_folder
from benchmarks.watchers.collection import WatchedCollection
from benchmarks.watchers.commands import Deliver, Open
from benchmarks.workloads.workload import Skipped, Workload

SETTLE_SECONDS = 1.0  # before reading memory
FIRST = 50  # watchers before the first reading of memory, so that memory allocated once is not counted
MISSED = 100  # events written while no watcher is connected
WRITERS = 16
# TLS handshakes in progress at once. One client process makes all of them and is no faster than the server: with more,
# it would exceed the server's handshake timeout, which thousands of separate clients do not.
HANDSHAKES = 256


def idle(
    server: MeasuredServer, *, work: str, tls: bool, transport: str = HTTP1, per_connection: int = 1
) -> Measurement:
    """Idle watchers of a new server: in a used one, they would reuse memory that earlier watchers freed."""
    if not server.endpoint.pids:
        raise Skipped("no process ids were given")
    sizes = server.sizes
    count = sizes.many if per_connection == 1 else sizes.watchers
    with _own_server(server) as own:
        collection = WatchedCollection(own, work)
        with collection.start_watchers(tls=tls, sockets=(count + FIRST) // per_connection) as process:
            command = Open(FIRST, collection.watches(), transport=transport, per_connection=per_connection)
            process.open(command)
            before = _memory_at_rest(own)
            done = process.open(dataclasses.replace(command, watchers=count))
            grown = _memory_at_rest(own) - before
    figures = {
        "rate": round(count / done.seconds, 1),
        "cpu_us": round(done.server_cpu / count * 1e6, 2),
        "kb": round(grown * 1024 / count, 2),
    }
    notes = {"watchers": count, "transport": transport, "per_connection": per_connection}
    return Measurement(work, figures, notes)


def _memory_at_rest(server: MeasuredServer) -> float:
    time.sleep(SETTLE_SECONDS)
    return memory(server.endpoint.pids).pss_mb


def reconnect(server: MeasuredServer, *, work: str, tls: bool) -> Measurement:
    """The server restarts and all watchers reconnect at once, each from its last version: no client lists again."""
    count = server.sizes.many
    with _own_server(server) as first:
        collection = WatchedCollection(first, work)
        version = collection.version()
        with collection.start_watchers(tls=tls, sockets=count) as process:
            process.deliver(Deliver(MISSED, step=MISSED, writers=WRITERS))
        with _restarted(first) as restarted:
            collection = collection.on(restarted)
            with collection.start_watchers(tls=tls, sockets=count) as process:
                watches = collection.watches(version=version)
                done = process.open(Open(count, watches, missed=MISSED, window=HANDSHAKES if tls else count))
    figures = {
        "seconds": round(done.seconds, 3),
        "cpu_us": round(done.server_cpu / count * 1e6, 2),
        **{f"{name}_ms": value for name, value in done.latency_ms.items()},
    }
    return Measurement(work, figures, {"watchers": count, "missed": MISSED, "deliveries": done.deliveries})


@contextmanager
def _own_server(server: MeasuredServer) -> Iterator[MeasuredServer]:
    """A newly started server of ours; when the measured server is not ours, that server."""
    if server.process is None:
        yield server
        return
    options = server.options
    folder = fresh_folder(options.scratch, "watched")
    process = ServerProcess(folder, dialect=options.dialect, command=options.rewound)
    try:
        yield MeasuredServer(process.endpoint, options, name=server.name, process=process)
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _restarted(server: MeasuredServer) -> Iterator[MeasuredServer]:
    if server.process is None:
        yield server
        return
    server.process.stop()
    options = server.options
    process = ServerProcess(server.process.folder, dialect=options.dialect, command=options.rewound)
    try:
        yield MeasuredServer(process.endpoint, options, name=server.name, process=process)
    finally:
        process.stop()


CONNECTING: tuple[Workload[MeasuredServer], ...] = (
    Workload(
        "idle-plain", "an idle watcher, {many} of them, plain", partial(idle, work="idle-plain", tls=False)
    ),
    Workload("idle", "an idle watcher, {many} of them, TLS", partial(idle, work="idle", tls=True)),
    Workload(
        "reconnect-plain",
        "{many} watchers reconnect after a restart, plain",
        partial(reconnect, work="reconnect-plain", tls=False),
    ),
    Workload(
        "reconnect",
        "{many} watchers reconnect after a restart, TLS",
        partial(reconnect, work="reconnect", tls=True),
    ),
)
