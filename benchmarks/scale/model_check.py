"""Compares the model of `benchmarks/simulate.py` with a server: requests at random times, at several rates.

Costs are measured first, one kind of request at a time and in a closed loop; then gets, writes and watchers of these
writes come together, at times that a Poisson process gives, whether the server is ready for them or not. Latency counts
from that time. The model gets the costs and the rates and says what the latencies should be; nothing else is fitted.
"""

from __future__ import annotations

import random
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loads.connection import Http1Connection, connect
from benchmarks.loads.http1 import RequestEncoder
from benchmarks.loads.job import Lane, run_lane
from benchmarks.loads.request import Request
from benchmarks.reports.measurement import from_load
from benchmarks.scale.objects import CONNECTIONS, parts_of_a_write
from benchmarks.scale.watchers import served
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.endpoint import Endpoint
from benchmarks.simulate import Cluster, Costs, Layout, Load, summary
from benchmarks.watchers.watcher import MARK

RATES = (500.0, 1000.0, 2000.0)  # requests per second
WRITES = 0.2  # share of them
WATCHERS = 50
POOL = 64  # connections: more requests at a time wait in the client, and that counts
SECONDS_LEFT = 30.0  # for the last responses
Figures = dict[str, Any]


@dataclass(slots=True)
class Waiting:
    due: float
    request: Request
    write: bool


class OpenLoad:
    """Sends requests when they are due, over any idle connection; reads and counts the events of watchers.

    Connections and watchers are spread over the endpoints. `writes`: which share of the requests creates an object.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        get: str,
        collection: str,
        watchers: int = WATCHERS,
        writes: float = WRITES,
    ) -> None:
        self._endpoints, self._collection, self._share = endpoints, collection, writes
        self._get = Request("GET", get)
        self._idle = [
            Http1Connection(0, endpoints[number % len(endpoints)], None, keep_body=False)
            for number in range(POOL)
        ]
        self._connections = {each.fileno(): each for each in self._idle}
        self._sent: dict[int, Waiting] = {}
        self._watchers = {sock.fileno(): sock for sock in self._watch(collection, watchers)}
        self._first = next(iter(self._watchers))  # whose events are timed
        self._poll = select.epoll()
        for fd in (*self._connections, *self._watchers):
            self._poll.register(fd, select.EPOLLIN)
        self._buffer = bytearray(1 << 20)
        self._written = 0
        self.reads: list[float] = []
        self.writes: list[float] = []
        self.deliveries: list[float] = []
        self._due_writes: deque[float] = deque()

    def _watch(self, collection: str, watchers: int) -> list[socket.socket]:
        found = []
        for number in range(watchers):
            endpoint = self._endpoints[number % len(self._endpoints)]
            request = RequestEncoder(endpoint.token).encode(Request("GET", f"{collection}?watch=1"))
            sock = connect(endpoint, None)
            sock.sendall(request)
            found.append(sock)
        return found

    def run(self, rate: float, seconds: float, seed: int) -> None:
        choose, waiting = random.Random(seed), deque[Waiting]()
        begin = time.perf_counter()
        due, end = begin + choose.expovariate(rate), begin + seconds
        while due < end or self._sent or waiting or self._due_writes:
            now = time.perf_counter()
            while due <= now and due < end:
                waiting.append(self._next(due, choose.random() < self._share))
                due += choose.expovariate(rate)
            while waiting and self._idle:
                self._send(waiting.popleft())
            if now > end + SECONDS_LEFT:
                raise TimeoutError(f"{len(self._sent)} requests have no response")
            # epoll rounds up to milliseconds: the last one before a request is due passes without sleeping.
            pause = max(0.0, due - time.perf_counter() - 0.001) if due < end else 0.1
            for fd, _ in self._poll.poll(pause):
                self._read(fd)

    def _next(self, due: float, write: bool) -> Waiting:
        if not write:
            return Waiting(due, self._get, write)
        self._written += 1
        data = b'"payload":"%s","seal":"%s"' % (b"x" * 900, MARK)
        body = b'{"metadata":{"name":"m-%d"},"data":{%s}}' % (self._written, data)
        return Waiting(due, Request("POST", self._collection, body), write)

    def _send(self, waiting: Waiting) -> None:
        connection = self._idle.pop()
        self._sent[connection.fileno()] = waiting
        if waiting.write:
            self._due_writes.append(waiting.due)
        connection.start(connection.exchanges[0], waiting.request)

    def _read(self, fd: int) -> None:
        if fd in self._watchers:
            received = self._watchers[fd].recv_into(self._buffer)
            if fd == self._first:
                # Events come in the order of commits, which is about that of requests; the mean is exact in any case.
                for _ in range(bytes(self._buffer[:received]).count(MARK)):
                    self.deliveries.append(time.perf_counter() - self._due_writes.popleft())
            return
        connection = self._connections[fd]
        if connection.read(self._buffer, memoryview(self._buffer)):
            waiting = self._sent.pop(fd)
            (self.writes if waiting.write else self.reads).append(time.perf_counter() - waiting.due)
            status = connection.exchanges[0].response.status
            if status >= 300:
                raise ValueError(f"{waiting.request.method} {waiting.request.path}: {status}")
            self._idle.append(connection)

    def close(self) -> None:
        for each in (*self._connections.values(), *self._watchers.values()):
            each.close()
        self._poll.close()


def measure(
    scratch: Path, seconds: float, report: Callable[[str], None], rates: tuple[float, ...] = RATES
) -> Figures:
    with served(scratch, 1) as server:
        endpoint = server.endpoint_for(tls=False)
        assert endpoint is not None
        get = f"{server.collection(200)}/o-000001"
        figures = _costs(endpoint, get, server.config_maps("closed"), min(seconds, 2.0))
        found: Figures = {"costs": figures}
        for number, rate in enumerate(rates):
            found[f"{rate:g}"] = _compare(
                endpoint, get, server.config_maps(f"open-{number}"), figures, rate, seconds
            )
            report(f"{rate:g} requests a second: {found[f'{rate:g}']}")
        return found


def _costs(endpoint: Endpoint, get: str, collection: str, seconds: float) -> Figures:
    """Of each kind of request alone. The time of a get that is not the server's is that of the network here."""
    figures: Figures = {"append_us": 0.0}
    for work, connections, plan in (
        ("get", CONNECTIONS, {"plan": "repeat", "paths": [get]}),
        ("get_one", 1, {"plan": "repeat", "paths": [get]}),
        ("create", CONNECTIONS, {"plan": "create", "path": collection, "prefix": "c-"}),
        ("create_one", 1, {"plan": "create", "path": collection, "prefix": "one-"}),
    ):
        done = run_lane(Lane(endpoint, plan, connections), seconds, rounds=3, warmup=seconds / 4)
        measured = from_load(work, done, connections).figures
        figures |= {f"{work}_us": measured["cpu_us"], f"{work}_p50_ms": measured["p50_ms"]}
    figures |= parts_of_a_write(figures)
    figures["rtt_ms"] = round(figures["get_one_p50_ms"] - figures["get_one_us"] / 1e3, 3)
    figures["delivery_us"] = DELIVERY_US
    return figures


DELIVERY_US = (
    9.0  # plain, docs/benchmarks/scale.json: one more measurement would take longer than all of these
)


def _compare(
    endpoint: Endpoint, get: str, collection: str, costs: Figures, rate: float, seconds: float
) -> Figures:
    load = OpenLoad((endpoint,), get, collection)
    try:
        load.run(rate, 1.0, seed=0)
        for values in (load.reads, load.writes, load.deliveries):
            values.clear()
        used, begin = cpu_seconds(endpoint.pids), time.perf_counter()
        load.run(rate, seconds, seed=1)
        busy = (cpu_seconds(endpoint.pids) - used) / (time.perf_counter() - begin)
    finally:
        load.close()
    measured = {
        name: summary(values)
        for name, values in (("reads", load.reads), ("writes", load.writes), ("deliveries", load.deliveries))
    }
    run = modelled(costs, rate, seconds)
    cpu = rate * (
        (1 - WRITES) * costs["get_us"] + WRITES * (costs["write_us"] + WATCHERS * costs["delivery_us"])
    )
    cpu += run.commits / seconds * costs["commit_cpu_us"]
    return {
        "measured_busy": round(busy, 3),
        "modelled_busy": round(cpu / 1e6, 3),
        "measured_ms": measured,
        "modelled_ms": {name: summary(getattr(run.latencies, name)) for name in measured},
    }


def steady_load(rate: float, watchers: int, writes: float) -> Load:
    """Requests at a rate, of which a part are writes; every write is a change that all watchers get."""
    return Load(
        nodes=watchers,
        lease_interval=1e9,
        status_interval=1e9,
        pods_per_node=0,
        pod_changes=0.0,
        reads=rate * (1 - writes) / watchers,
        broadcasts=rate * writes,
        controllers=0,
    )


def modelled(costs: Figures, rate: float, seconds: float) -> Cluster:
    """A run of the model: every write is a change that all watchers get."""
    model = Costs(
        get_us=costs["get_us"],
        write_us=costs["write_us"],
        apply_us=0.0,
        deliver_us=costs["delivery_us"],
        connect_us=0.0,
        watch_us=0.0,
        commit_us=max(costs["commit_us"], 0.0),
        relist_us=0.0,
        watcher_kb=0.0,
        base_mb=0.0,
        object_bytes=0.0,
    )
    layout = Layout(1, workers=1, rtt_ms=costs["rtt_ms"], journal="disk")
    run = Cluster(steady_load(rate, WATCHERS, WRITES), layout, model, seed=1)
    run.run(seconds)
    return run
