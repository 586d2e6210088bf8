"""The load generator, `python -m benchmarks.loads.generator`: reads a job, writes its result.

One thread drives all connections with epoll, one request in flight on each or, over HTTP/2, several (a closed loop).
Every round starts with idle connections and ends with the last response, and the generator reads the server's CPU clock
at these two moments, so that CPU per operation counts exactly the operations of the round. Lanes take turns by rounds.
Rejected: a thread per connection (they compete for the interpreter, which shows as latency of the server), and wrk and
h2load (often not installed, and they cannot read, change and retry).
"""

from __future__ import annotations

import gc
import select
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.loads.connection import Connection, Exchange, Http1Connection, client_context
from benchmarks.loads.http2_connection import Http2Connection
from benchmarks.loads.job import HTTP2, Job, Lane, LoadResult, Round, decode_job, encode_results
from benchmarks.loads.latency import summary
from benchmarks.loads.plans import Outcome, Plan, make_plan
from benchmarks.loads.request import BadResponse, Request
from benchmarks.servers.cpu import cpu_seconds

STALL_TIMEOUT = 30.0  # seconds without a byte on any connection before the generator gives up
TOO_MANY_ERRORS = 1000  # a server that returns errors responds quickly; its figures would be of no use
_BUFFER = 1 << 18


class LoadAborted(Exception):
    pass


class Load:
    """Runs the rounds of one lane on all its connections."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._plan: Plan = make_plan(lane.plan)
        self._poll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self.latencies: list[float] = []
        self.errors = self.bytes_received = 0
        self.first_error = ""
        self._counted_before: dict[str, int] = {}  # the plan's counts before the first round
        for connection in open_connections(lane, keep_body=self._plan.keep_body):
            self._register(connection)

    def _register(self, connection: Connection) -> None:
        self._connections[connection.fileno()] = connection
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def reset(self) -> None:
        self.latencies.clear()
        self.errors = self.bytes_received = 0
        self.first_error = ""
        self._counted_before = self._plan.notes()

    def round(self, seconds: float, count: int) -> Round:
        before, pids = len(self.latencies), self._lane.endpoint.pids
        cpu, own, begin = cpu_seconds(pids), time.process_time(), time.perf_counter()
        self._drive(begin + seconds, count)
        end = time.perf_counter()
        return Round(
            operations=len(self.latencies) - before,
            seconds=end - begin,
            server_cpu=cpu_seconds(pids) - cpu,
            generator_cpu=time.process_time() - own,
        )

    def _drive(self, deadline: float, count: int) -> None:
        in_flight = 0
        for connection in list(self._connections.values()):
            for exchange in connection.exchanges:
                if in_flight < count and self._start(connection, exchange):
                    in_flight += 1
            self._flush(connection)
        left = count - in_flight
        while in_flight:
            for connection, exchanges in self._readable():
                for exchange in exchanges:
                    if not self._finish(connection, exchange):
                        continue
                    if left > 0 and time.perf_counter() < deadline and self._start(connection, exchange):
                        left -= 1
                    else:
                        in_flight -= 1
                self._flush(connection)

    def _readable(self) -> Iterator[tuple[Connection, Sequence[Exchange]]]:
        """Connections with complete responses, and which exchanges these complete."""
        ready = self._poll.poll(STALL_TIMEOUT)
        if not ready:
            raise LoadAborted(f"no response for {STALL_TIMEOUT:.0f} seconds")
        for fd, _ in ready:
            connection = self._connections.get(fd)
            if connection is not None and (complete := self._read(connection)):
                yield connection, complete

    def _read(self, connection: Connection) -> Sequence[Exchange]:
        try:
            return connection.read(self._buffer, self._view)
        except OSError as problem:
            self._recover(connection, problem)
            return ()

    def _recover(self, connection: Connection, problem: OSError) -> None:
        """The server closed the connection: reconnect, and repeat the requests that have no response."""
        waiting = [(each, each.request) for each in connection.exchanges if each.waiting]
        begun = [each.response.begun for each, _ in waiting]
        self._reopen(connection)
        for (exchange, request), counts in zip(waiting, begun, strict=True):
            self._record_error(f"{type(problem).__name__}: {problem}", counts=counts)
            if request is not None:
                connection.start(exchange, request)
        connection.flush()

    def _start(self, connection: Connection, exchange: Exchange) -> bool:
        request = self._plan.next(exchange.slot)
        if request is None:
            return False
        exchange.started = time.perf_counter()
        self._send(connection, exchange, request)
        return True

    def _send(self, connection: Connection, exchange: Exchange, request: Request) -> None:
        try:
            connection.start(exchange, request)
        except OSError as problem:
            self._recover(connection, problem)

    def _flush(self, connection: Connection) -> None:
        try:
            connection.flush()
        except OSError as problem:
            self._recover(connection, problem)

    def _finish(self, connection: Connection, exchange: Exchange) -> bool:
        """Checks a response; False when its operation continues with another request."""
        response = exchange.response
        self.bytes_received += response.size
        outcome = self._plan.check(exchange.slot, response.status, response.body)
        if response.closes:
            self._reopen(connection)
        if outcome is Outcome.AGAIN and (request := self._plan.next(exchange.slot)) is not None:
            self._send(connection, exchange, request)
            return False
        if outcome is Outcome.DONE:
            self.latencies.append(time.perf_counter() - exchange.started)
        else:
            self._record_error(f"status {response.status}: {response.body[:300]!r}", counts=True)
        return True

    def _reopen(self, connection: Connection) -> None:
        del self._connections[connection.fileno()]
        connection.reconnect()
        self._register(connection)

    def _record_error(self, problem: str, *, counts: bool) -> None:
        self.first_error = self.first_error or problem
        self.errors += counts
        if self.errors > TOO_MANY_ERRORS:
            raise LoadAborted(f"more than {TOO_MANY_ERRORS} errors, the first: {self.first_error}")

    def result(self, rounds: list[Round]) -> LoadResult:
        return LoadResult(
            rounds=tuple(rounds),
            latency_ms=summary(self.latencies),
            errors=self.errors,
            first_error=self.first_error,
            reconnects=sum(connection.reconnects for connection in self._connections.values()),
            bytes_received=self.bytes_received,
            notes={
                name: count - self._counted_before.get(name, 0) for name, count in self._plan.notes().items()
            },
        )

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._poll.close()


def open_connections(lane: Lane, *, keep_body: bool) -> Iterator[Connection]:
    endpoint = lane.endpoint
    if lane.transport == HTTP2:
        context = client_context("h2") if endpoint.tls else None
        for index in range(lane.connections):
            yield Http2Connection(index, endpoint, context, keep_body=keep_body, in_flight=lane.in_flight)
        return
    context = client_context() if endpoint.tls else None
    for index in range(lane.connections):
        yield Http1Connection(index, endpoint, context, keep_body=keep_body)


def perform(job: Job) -> list[LoadResult]:
    loads: list[Load] = []
    try:
        for lane in job.lanes:
            loads.append(Load(lane))
        if job.warmup:
            for load in loads:
                load.round(job.warmup, job.count)
                load.reset()
        rounds: list[list[Round]] = [[] for _ in loads]
        for _ in range(job.rounds):
            for load, own in zip(loads, rounds, strict=True):
                own.append(load.round(job.seconds, job.count))
        return [load.result(own) for load, own in zip(loads, rounds, strict=True)]
    finally:
        for load in loads:
            load.close()


def main() -> int:
    job = decode_job(sys.stdin.read())
    gc.disable()  # nothing here creates reference cycles, and a collection would show as latency of the server
    try:
        results = perform(job)
    except (OSError, LoadAborted, BadResponse) as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
        return 1
    print(encode_results(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
