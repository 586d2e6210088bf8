"""The load generator, `python -m benchmarks.load`: a job on standard input, its account on standard output.

One thread drives all connections with epoll, one request in flight on each (a closed loop). Every round
starts with idle connections and ends when the last answer is in, and the CPU clock of the server is read at
these two moments, so that CPU per operation counts exactly the work of the operations counted. Rejected: a
thread per connection (the interpreter lock makes it several times dearer) and wrk (often missing, and it
cannot read, change and retry).
"""

from __future__ import annotations

import gc
import json
import select
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

from benchmarks.cpu import cpu_seconds
from benchmarks.job import Account, Job, Round, decode_job
from benchmarks.latency import summary
from benchmarks.plans import Outcome, Plan, make_plan
from benchmarks.target import Target
from benchmarks.wire import Answer

STALLED = 30.0  # seconds without a single byte on any connection: the server hangs
TOO_MANY_ERRORS = 1000  # a broken server answers errors quickly; its account is of no use
_BUFFER = 1 << 18


class Stalled(Exception):
    pass


class Lane:
    """One connection and the answer it waits for."""

    __slots__ = (
        "_context",
        "_sent",
        "_sock",
        "_target",
        "answer",
        "index",
        "reconnects",
        "started",
        "waiting",
    )

    def __init__(self, index: int, target: Target, context: ssl.SSLContext | None, keep_body: bool) -> None:
        self.index = index
        self.answer = Answer(keep_body)
        self.started = 0.0
        self.waiting = False
        self.reconnects = 0
        self._target, self._context = target, context
        self._sent = b""
        self._sock = self._connect()

    def _connect(self) -> socket.socket:
        sock = socket.create_connection((self._target.host, self._target.port), timeout=STALLED)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is not None:
            sock = self._context.wrap_socket(sock)
        sock.setblocking(False)
        return sock

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def send(self, data: bytes) -> None:
        # Never blocks: the request before was answered, so the socket's buffer is empty and far larger.
        self._sent = data
        self.waiting = True
        self.answer.clear()
        self._sock.send(data)

    def read(self, buffer: bytearray, view: memoryview) -> bool:
        """Takes what has arrived; True when the answer is complete. OSError when the connection is lost."""
        sock, answer = self._sock, self.answer
        try:
            while True:
                size = sock.recv_into(buffer)
                if not size:
                    raise ConnectionResetError("closed by the server")
                if answer.feed(view[:size]):
                    self.waiting = False
                    return True
        except (BlockingIOError, ssl.SSLWantReadError):
            return False

    def reconnect(self) -> None:
        self._sock.close()
        self._sock = self._connect()
        self.waiting = False
        self.reconnects += 1

    def send_again(self) -> None:
        self.send(self._sent)


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
        context = _client_context() if job.target.tls else None
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


def _client_context() -> ssl.SSLContext:
    # Loopback only (see benchmarks.target), and a reference makes its own certificate: nothing to verify.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


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
