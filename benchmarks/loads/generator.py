"""The load generator, `python -m benchmarks.loads.generator`: a job on standard input, its account on standard output.

One thread drives all connections with epoll, one request in flight on each (a closed loop). Every round
starts with idle connections and ends when the last answer is in, and the CPU clock of the server is read at
these two moments, so that CPU per operation counts exactly the work of the operations counted. Rejected: a
thread per connection (they take turns at the interpreter, which shows as latency of the server) and wrk
(often missing, and it cannot read, change and retry).
"""

from __future__ import annotations

import gc
import json
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

from benchmarks.loads.connection import Lane, client_context
from benchmarks.loads.job import Account, Job, Round, decode_job
from benchmarks.loads.latency import summary
from benchmarks.loads.plans import Outcome, Plan, make_plan
from benchmarks.servers.cpu import cpu_seconds

STALLED = 30.0  # seconds without a single byte on any connection: the server hangs
TOO_MANY_ERRORS = 1000  # a broken server answers errors quickly; its account is of no use
_BUFFER = 1 << 18


class Stalled(Exception):
    pass


class Load:
    """All connections of a job, round after round."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._plan: Plan = make_plan(job.target.token, job.plan)
        self._poll = select.epoll()
        self._lanes: dict[int, Lane] = {}
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self.latencies: list[float] = []
        self.errors = self.bytes_received = 0
        self.first_error = ""
        self._noted: dict[str, int] = {}  # what the plan had counted before the first round
        context = client_context() if job.target.tls else None
        for index in range(job.connections):
            self._register(Lane(index, job.target, context, self._plan.keep_body))

    def _register(self, lane: Lane) -> None:
        self._lanes[lane.fileno()] = lane
        self._poll.register(lane.fileno(), select.EPOLLIN)

    def forget(self) -> None:
        self.latencies.clear()
        self.errors = self.bytes_received = 0
        self.first_error = ""
        self._noted = self._plan.notes()

    def round(self, seconds: float) -> Round:
        before = len(self.latencies)
        cpu, own, begin = cpu_seconds(self._job.target.pids), time.process_time(), time.perf_counter()
        self._drive(begin + seconds, self._job.count)
        end = time.perf_counter()
        return Round(
            operations=len(self.latencies) - before,
            seconds=end - begin,
            server_cpu=cpu_seconds(self._job.target.pids) - cpu,
            generator_cpu=time.process_time() - own,
        )

    def _drive(self, deadline: float, count: int) -> None:
        flying = 0
        for lane in list(self._lanes.values()):
            if flying < count and self._start(lane):
                flying += 1
        left = count - flying
        while flying:
            for lane in self._readable():
                if not self._finish(lane):
                    continue
                if left > 0 and time.perf_counter() < deadline and self._start(lane):
                    left -= 1
                else:
                    flying -= 1

    def _readable(self) -> Iterator[Lane]:
        ready = self._poll.poll(STALLED)
        if not ready:
            raise Stalled(f"no answer for {STALLED:.0f} seconds")
        for fd, _ in ready:
            lane = self._lanes.get(fd)
            if lane is not None and self._read(lane):
                yield lane

    def _read(self, lane: Lane) -> bool:
        try:
            return lane.read(self._buffer, self._view)
        except OSError as problem:
            self._lost(lane, problem)
            return False

    def _lost(self, lane: Lane, problem: OSError) -> None:
        """A server may close a connection for reasons of its own: connect, and ask again what is open."""
        waiting = lane.waiting
        self._reopen(lane)
        if waiting:
            self._note(f"{type(problem).__name__}: {problem}", counts=lane.answer.begun)
            lane.send_again()

    def _start(self, lane: Lane) -> bool:
        data = self._plan.next(lane.index)
        if data is None:
            return False
        lane.started = time.perf_counter()
        self._send(lane, data)
        return True

    def _send(self, lane: Lane, data: bytes) -> None:
        try:
            lane.send(data)
        except OSError as problem:
            self._lost(lane, problem)

    def _finish(self, lane: Lane) -> bool:
        """Judges an answer; False while its operation goes on with another request."""
        answer = lane.answer
        self.bytes_received += answer.size
        outcome = self._plan.judge(lane.index, answer.status, answer.body)
        if answer.closing:
            self._reopen(lane)
        if outcome is Outcome.AGAIN and (data := self._plan.next(lane.index)) is not None:
            self._send(lane, data)
            return False
        if outcome is Outcome.DONE:
            self.latencies.append(time.perf_counter() - lane.started)
        else:
            self._note(f"status {answer.status}: {answer.body[:300]!r}", counts=True)
        return True

    def _reopen(self, lane: Lane) -> None:
        del self._lanes[lane.fileno()]
        lane.reconnect()
        self._register(lane)

    def _note(self, problem: str, *, counts: bool) -> None:
        self.first_error = self.first_error or problem
        self.errors += counts
        if self.errors > TOO_MANY_ERRORS:
            raise Stalled(f"more than {TOO_MANY_ERRORS} errors, the first: {self.first_error}")

    def account(self, rounds: list[Round]) -> Account:
        return Account(
            rounds=tuple(rounds),
            latency_ms=summary(self.latencies),
            errors=self.errors,
            first_error=self.first_error,
            reconnects=sum(lane.reconnects for lane in self._lanes.values()),
            bytes_received=self.bytes_received,
            notes={name: count - self._noted.get(name, 0) for name, count in self._plan.notes().items()},
        )

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._poll.close()


def perform(job: Job) -> Account:
    load = Load(job)
    try:
        if job.warmup:
            load.round(job.warmup)
            load.forget()
        return load.account([load.round(job.seconds) for _ in range(job.rounds)])
    finally:
        load.close()


def main() -> int:
    job = decode_job(sys.stdin.read())
    gc.disable()  # nothing here makes cycles, and a collection would show as latency of the server
    try:
        account = perform(job)
    except (OSError, Stalled) as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
        return 1
    json.dump(asdict(account), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
