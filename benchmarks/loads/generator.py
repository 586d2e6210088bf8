"""The load generator, `python -m benchmarks.loads.generator`: reads a job, writes its result.

One thread drives all connections with epoll, one request in flight on each (a closed loop). Every round starts with
idle connections and ends with the last response, and the generator reads the server's CPU clock at these two moments,
so that CPU per operation counts exactly the operations of the round. Rejected: a thread per connection (they compete
for the interpreter, which shows as latency of the server) and wrk (often not installed, and it cannot read, change
and retry).
"""

from __future__ import annotations

import gc
import json
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

from benchmarks.loads.connection import Connection, client_context
from benchmarks.loads.job import Job, LoadResult, Round, decode_job
from benchmarks.loads.latency import summary
from benchmarks.loads.plans import Outcome, Plan, make_plan
from benchmarks.servers.cpu import cpu_seconds

STALL_TIMEOUT = 30.0  # seconds without a byte on any connection before the generator gives up
TOO_MANY_ERRORS = 1000  # a server that returns errors responds quickly; its figures would be of no use
_BUFFER = 1 << 18


class LoadAborted(Exception):
    pass


class Load:
    """Runs the rounds of a job on all its connections."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._plan: Plan = make_plan(job.endpoint.token, job.plan)
        self._poll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self.latencies: list[float] = []
        self.errors = self.bytes_received = 0
        self.first_error = ""
        self._counted_before: dict[str, int] = {}  # the plan's counts before the first round
        context = client_context() if job.endpoint.tls else None
        for index in range(job.connections):
            self._register(Connection(index, job.endpoint, context, self._plan.keep_body))

    def _register(self, connection: Connection) -> None:
        self._connections[connection.fileno()] = connection
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def reset(self) -> None:
        self.latencies.clear()
        self.errors = self.bytes_received = 0
        self.first_error = ""
        self._counted_before = self._plan.notes()

    def round(self, seconds: float) -> Round:
        before = len(self.latencies)
        cpu, own, begin = cpu_seconds(self._job.endpoint.pids), time.process_time(), time.perf_counter()
        self._drive(begin + seconds, self._job.count)
        end = time.perf_counter()
        return Round(
            operations=len(self.latencies) - before,
            seconds=end - begin,
            server_cpu=cpu_seconds(self._job.endpoint.pids) - cpu,
            generator_cpu=time.process_time() - own,
        )

    def _drive(self, deadline: float, count: int) -> None:
        in_flight = 0
        for connection in list(self._connections.values()):
            if in_flight < count and self._start(connection):
                in_flight += 1
        left = count - in_flight
        while in_flight:
            for connection in self._readable():
                if not self._finish(connection):
                    continue
                if left > 0 and time.perf_counter() < deadline and self._start(connection):
                    left -= 1
                else:
                    in_flight -= 1

    def _readable(self) -> Iterator[Connection]:
        ready = self._poll.poll(STALL_TIMEOUT)
        if not ready:
            raise LoadAborted(f"no response for {STALL_TIMEOUT:.0f} seconds")
        for fd, _ in ready:
            connection = self._connections.get(fd)
            if connection is not None and self._read(connection):
                yield connection

    def _read(self, connection: Connection) -> bool:
        try:
            return connection.read(self._buffer, self._view)
        except OSError as problem:
            self._recover(connection, problem)
            return False

    def _recover(self, connection: Connection, problem: OSError) -> None:
        """The server closed the connection: reconnect, and repeat the request that has no response."""
        waiting = connection.waiting
        self._reopen(connection)
        if waiting:
            self._record_error(f"{type(problem).__name__}: {problem}", counts=connection.response.begun)
            connection.send_again()

    def _start(self, connection: Connection) -> bool:
        data = self._plan.next(connection.index)
        if data is None:
            return False
        connection.started = time.perf_counter()
        self._send(connection, data)
        return True

    def _send(self, connection: Connection, data: bytes) -> None:
        try:
            connection.send(data)
        except OSError as problem:
            self._recover(connection, problem)

    def _finish(self, connection: Connection) -> bool:
        """Checks a response; False when its operation continues with another request."""
        response = connection.response
        self.bytes_received += response.size
        outcome = self._plan.check(connection.index, response.status, response.body)
        if response.closes:
            self._reopen(connection)
        if outcome is Outcome.AGAIN and (data := self._plan.next(connection.index)) is not None:
            self._send(connection, data)
            return False
        if outcome is Outcome.DONE:
            self.latencies.append(time.perf_counter() - connection.started)
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


def perform(job: Job) -> LoadResult:
    load = Load(job)
    try:
        if job.warmup:
            load.round(job.warmup)
            load.reset()
        return load.result([load.round(job.seconds) for _ in range(job.rounds)])
    finally:
        load.close()


def main() -> int:
    job = decode_job(sys.stdin.read())
    gc.disable()  # nothing here creates reference cycles, and a collection would show as latency of the server
    try:
        result = perform(job)
    except (OSError, LoadAborted) as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
        return 1
    json.dump(asdict(result), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
