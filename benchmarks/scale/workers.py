"""One process beside `--workers N`, in one run and in turns: gets, lists, creates and deliveries.

Two ratios for each: of the rates, which on a machine of two cores includes what the client takes of them, and of the
capacities, operations per CPU second of the busiest process, which is what further cores would allow. Rounds of both
servers alternate, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.scale.light_load import Creates, Deliveries, Load, Repeated, Round
from benchmarks.scale.watchers import served
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.servers.memory import memory
from benchmarks.watchers.collection import WatchedCollection

OBJECTS = 2_000
CONNECTIONS, READERS = 32, 8
WATCHERS = 1_000
Figures = dict[str, Any]


def measure(
    scratch: Path,
    workers: int,
    rounds: int,
    seconds: float,
    report: Callable[[str], None],
    command: str = "",
) -> Figures:
    with ExitStack() as stack:
        servers = {count: stack.enter_context(served(scratch, count, command)) for count in (1, workers)}
        found: Figures = {}
        for work in ("get", "list", "create", "delivery"):
            found[work] = _compare(work, servers, rounds, seconds)
            report(f"{work}: " + ", ".join(f"{name} {value}" for name, value in found[work].items()))
        found["memory_mb"] = {str(n): memory(server.endpoint.pids).pss_mb for n, server in servers.items()}
        return found


def _compare(work: str, servers: dict[int, MeasuredServer], rounds: int, seconds: float) -> Figures:
    loads = {count: _load(work, server) for count, server in servers.items()}
    gc.disable()
    try:
        for load in loads.values():
            load.round(seconds / 4)
        made = [{count: load.round(seconds) for count, load in loads.items()} for _ in range(rounds)]
    finally:
        gc.enable()
        for load in loads.values():
            load.close()
    one, several = sorted(loads)
    figures: Figures = {}
    for name, value in (
        ("rate", lambda each: each.rate),
        ("cpu_us", lambda each: each.cpu_us),
        ("capacity", lambda each: each.capacity),
    ):
        figures |= _figures(name, made, one, several, value)
    figures["client_us"] = round(
        statistics.median(turn[one].client_cpu / turn[one].operations * 1e6 for turn in made), 1
    )
    return figures


def _figures(
    name: str, made: list[dict[int, Round]], one: int, several: int, value: Callable[[Round], float]
) -> Figures:
    return {
        name: round(statistics.median(value(turn[one]) for turn in made), 1),
        f"{name}_workers": round(statistics.median(value(turn[several]) for turn in made), 1),
        f"{name}_ratio": round(
            statistics.median(value(turn[several]) / value(turn[one]) for turn in made), 2
        ),
    }


def _load(work: str, server: MeasuredServer) -> Load:
    endpoint = _plain(server)
    if work == "get":
        return Repeated(endpoint, f"{server.collection(OBJECTS)}/o-000001", CONNECTIONS)
    if work == "list":
        return Repeated(endpoint, server.collection(OBJECTS), READERS)
    if work == "create":
        return Creates(endpoint, server.config_maps("creates"), CONNECTIONS)
    collection = WatchedCollection(server, "deliveries")
    body = b'{"metadata":{"annotations":{"number":"NUMBER"}}}'
    return Deliveries(endpoint, f"{collection.path}/w-00", collection.watches() * WATCHERS, body)


def _plain(server: MeasuredServer) -> Endpoint:
    endpoint = server.endpoint_for(tls=False)
    assert endpoint is not None
    return endpoint
