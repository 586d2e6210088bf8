"""The same work over HTTP/1.1 and HTTP/2, with one and with ten requests in flight per connection.

The rounds of the transports take turns and are short, because the ratio of two rounds that follow each other stays the
same on a busy machine. A get also takes turns with the bare TLS echo over the same transport.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.baselines.echo import GET, echo_server
from benchmarks.loads.job import HTTP1, HTTP2, Job, Lane, LoadResult, run_job
from benchmarks.reports.measurement import Measurement, cpu_us, from_load, ratio_of_rounds, with_h1_ratio
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.workloads.pages import PAGE
from benchmarks.workloads.pages import READERS as PAGE_READERS
from benchmarks.workloads.reads import LISTERS, READERS
from benchmarks.workloads.workload import Comparison, Skipped
from benchmarks.workloads.writes import WRITERS

SPLIT = 3  # rounds for each of the usual ones, each as much shorter
TEN = 10

PlanOf = Callable[[MeasuredServer, str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Transport:
    suffix: str  # of the workload's name
    title: str
    transport: str
    in_flight: int = 1


ONE = (Transport("h1", "HTTP/1.1", HTTP1), Transport("h2", "HTTP/2", HTTP2))
ONE_AND_TEN = (*ONE, Transport("h2-10", "HTTP/2, ten in flight", HTTP2, TEN))


def _get(server: MeasuredServer, suffix: str) -> dict[str, Any]:
    return {"plan": "repeat", "paths": [f"{server.collection(server.sizes.objects)}/o-000001"]}


def _create(server: MeasuredServer, suffix: str) -> dict[str, Any]:
    return {"plan": "create", "path": server.config_maps("create-transports"), "prefix": f"{suffix}-"}


def _list(server: MeasuredServer, suffix: str) -> dict[str, Any]:
    return {"plan": "repeat", "paths": [server.collection(server.sizes.objects)]}


def _page(server: MeasuredServer, suffix: str) -> dict[str, Any]:
    return {"plan": "repeat", "paths": [f"{server.collection(server.sizes.objects)}?limit={PAGE}"]}


@dataclass(frozen=True, slots=True)
class _Compared:
    work: str
    transports: tuple[Transport, ...]
    plan_of: PlanOf
    connections: int
    with_echo: bool = False

    def __call__(self, server: MeasuredServer) -> Sequence[Measurement]:
        if not server.endpoint.tls:
            raise Skipped("this server is not known to listen with TLS")
        lanes = [
            Lane(
                server.endpoint,
                self.plan_of(server, each.suffix),
                self.connections,
                each.transport,
                each.in_flight,
            )
            for each in self.transports
        ]
        with ExitStack() as stack:
            if self.with_echo:
                echo = stack.enter_context(echo_server(server.options, tls=True))
                lanes += [dataclasses.replace(lane, endpoint=echo, plan=GET) for lane in lanes]
            sizes = server.sizes
            results = run_job(
                Job(tuple(lanes), sizes.seconds / SPLIT, sizes.rounds * SPLIT, warmup=sizes.warmup)
            )
        count = len(self.transports)
        return self._measurements(results[:count], results[count:], bool(server.endpoint.pids))

    def _measurements(
        self, results: Sequence[LoadResult], echoes: Sequence[LoadResult], cpu_known: bool
    ) -> list[Measurement]:
        found = []
        for number, (transport, result) in enumerate(zip(self.transports, results, strict=True)):
            work = f"{self.work}-{transport.suffix}"
            each = from_load(work, result, self.connections, cpu_known=cpu_known)
            each.notes.update(transport=transport.transport, in_flight=transport.in_flight)
            if cpu_known and _complete(results):
                if number:
                    each = with_h1_ratio(each, _cpu(result), _cpu(results[0]))
                if echoes:
                    each = _with_echo(each, _cpu(result), echoes[number])
            found.append(each)
        return found


def _complete(results: Sequence[LoadResult]) -> bool:
    """Every round of every transport completed an operation; otherwise rounds cannot be compared."""
    return all(each.operations for result in results for each in result.rounds)


def _cpu(result: LoadResult) -> list[float]:
    return [cpu_us(each) for each in result.rounds]


def _with_echo(each: Measurement, own: Sequence[float], result: LoadResult) -> Measurement:
    echo = from_load("echo", result, 0)
    return dataclasses.replace(
        each,
        figures={**each.figures, "floor_ratio": round(ratio_of_rounds(own, _cpu(result)), 2)},
        notes={**each.notes, "floors": {"echo-tls": echo.figures["cpu_us"]}},
    )


def _comparison(
    work: str,
    title: str,
    transports: tuple[Transport, ...],
    plan_of: PlanOf,
    connections: int,
    *,
    with_echo: bool = False,
) -> Comparison[MeasuredServer]:
    titles = {f"{work}-{each.suffix}": f"{title}, {each.title}" for each in transports}
    return Comparison(f"{work}-h2", titles, _Compared(work, transports, plan_of, connections, with_echo))


REQUESTS: tuple[Comparison[MeasuredServer], ...] = (
    _comparison("get", "get one 1 kB object", ONE_AND_TEN, _get, READERS, with_echo=True),
    _comparison("create", "create 1 kB", ONE_AND_TEN, _create, WRITERS),
    _comparison("list", "list {objects} of 1 kB", ONE, _list, LISTERS),
    _comparison("page-small-first", "page of 100, first of {objects}", ONE, _page, PAGE_READERS),
)
