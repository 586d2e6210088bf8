"""What definitions of custom kinds cost: registering one beside few and beside many, a start with many, and what
clients read about one group.

A registration is the create of a CustomResourceDefinition of about 2 kB until its kind is served: validation, names,
two commits, publication.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.loads.client import Client
from benchmarks.options import Options
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.servers.memory import memory
from benchmarks.servers.server_process import ServerProcess, fresh_folder
from benchmarks.workloads.custom.samples import define, group_of, numbered
from benchmarks.workloads.start_and_memory import SETTLE_SECONDS
from benchmarks.workloads.workload import Comparison, Skipped

FEW = 10
AT_ONCE = 10  # registrations of a round
ROUNDS = 5
PER_GROUP = 10
READS = 20


def measure(server: MeasuredServer) -> Sequence[Measurement]:
    if server.process is None:
        raise Skipped("the harness did not start this server")
    options, many = server.options, server.sizes.definitions
    folder = fresh_folder(options.scratch, "definitions")
    try:
        process = ServerProcess(folder, dialect=options.dialect, command=options.rewound)
        try:
            registered = _registrations(process.endpoint, options, many)
        finally:
            process.stop()
        process = ServerProcess(folder, dialect=options.dialect, command=options.rewound)
        try:
            return [*registered, _start(process), *_reads(process.endpoint, many)]
        finally:
            process.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _registrations(endpoint: Endpoint, options: Options, many: int) -> list[Measurement]:
    """The first ones import modules and are not counted."""
    numbers = iter(range(10**6))

    def register(count: int) -> None:
        define(endpoint, options, *(numbered(next(numbers), PER_GROUP) for _ in range(count)))

    def rounds() -> list[float]:
        return [_cost(endpoint, lambda: register(AT_ONCE)) / AT_ONCE for _ in range(ROUNDS)]

    register(FEW)
    few = rounds()
    register(max(0, many - FEW - ROUNDS * AT_ONCE))
    return [_of_rounds("define-few", few), _of_rounds("define-many", rounds())]


def _start(process: ServerProcess) -> Measurement:
    time.sleep(SETTLE_SECONDS)
    now = memory(process.endpoint.pids)
    figures = {
        "seconds": round(process.ready_seconds, 3),
        "cpu_seconds": round(process.ready_cpu, 3),
        "mb": now.pss_mb,
        "anonymous_mb": now.anonymous_mb,
    }
    return Measurement("start-custom", figures)


def _reads(endpoint: Endpoint, many: int) -> list[Measurement]:
    """Each path is read once before: OpenAPI documents are made then."""
    groups = [group_of(number, PER_GROUP) for number in range(0, many, PER_GROUP)]
    client = Client(endpoint)

    def costs(path: str) -> list[float]:
        found = []
        for group in groups[:READS]:
            url = path.format(group=group)
            client.expect("GET", url)
            found.append(_cost(endpoint, lambda url=url: client.expect("GET", url)))
        return found

    with client:
        return [
            _of_rounds("discovery-custom", costs("/apis/{group}/v1")),
            _of_rounds("openapi-custom", costs("/openapi/v3/apis/{group}/v1")),
        ]


def _cost(endpoint: Endpoint, work: Callable[[], Any]) -> float:
    """CPU that the server spends meanwhile, in microseconds."""
    before = cpu_seconds(endpoint.pids)
    work()
    return (cpu_seconds(endpoint.pids) - before) * 1e6


def _of_rounds(work: str, costs: list[float]) -> Measurement:
    notes = {"cpu_us_of_rounds": [round(one) for one in costs]}
    return Measurement(work, {"cpu_us": round(statistics.median(costs), 1)}, notes)


TITLES = {
    "define-few": "register a custom kind beside a few",
    "define-many": "register a custom kind beside {definitions}",
    "start-custom": "start to ready with {definitions} custom kinds",
    "discovery-custom": "discovery of a group of ten, {definitions} custom kinds",
    "openapi-custom": "OpenAPI 3.0 of a group of ten, {definitions} custom kinds",
}
CUSTOM_DEFINITIONS = (Comparison("define-many", TITLES, measure),)
