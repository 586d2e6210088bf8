"""All watchers of a watcher process and the connections that write what they watch, on one epoll.

One thread, one buffer, one `recv_into` and one count of bytes per readable socket: on two cores the server lacks
whatever CPU the watchers use. The pool reads CPU clocks while nothing is in flight, so that they count exactly the
counted events. Every watcher must get every event exactly once: too many fail the workload as too few do.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from itertools import cycle

from benchmarks.loads.connection import Connection, client_context
from benchmarks.loads.http1 import request
from benchmarks.loads.latency import summary
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.watchers.commands import Assignment, Command, CommandResult, Deliver, Open, Release
from benchmarks.watchers.watcher import MARK, NotServed, Watcher

STALL_TIMEOUT = 30.0  # seconds without a byte on any connection before the pool gives up
_BUFFER = 1 << 18
_MAX_READY = 1024  # maximum number of sockets that one call of epoll reports
OBJECTS = 16  # objects that the writers replace in turn


class NoProgress(Exception):
    pass


class WatcherPool:
    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._context = client_context() if assignment.endpoint.tls else None
        self._poll = select.epoll()
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._watchers: dict[int, Watcher] = {}  # by file descriptor; those whose response has begun
        self._opening: dict[int, Watcher] = {}
        self._writers: dict[int, Connection] = {}
        self._writes = _writes(assignment)
        self._expected = 0  # events that every watcher should have
        self._behind = 0  # number of reading watchers that have fewer
        self._bytes = self._events = 0
        self._completed_at: list[float] = []  # when each watcher had all events

    def perform(self, command: Command) -> CommandResult:
        if isinstance(command, Deliver):
            self._open_writers(command.writers)
        cpu, own = self._server_cpu(), time.process_time()
        begin, size, events = time.perf_counter(), self._bytes, self._events
        match command:
            case Open():
                latencies = self._open(command)
            case Deliver():
                latencies = self._deliver(command)
            case Release():
                latencies = self._release()
        seconds = time.perf_counter() - begin
        server_cpu, generator_cpu = self._server_cpu() - cpu, time.process_time() - own
        self._close_writers()
        return CommandResult(
            deliveries=self._events - events,
            seconds=seconds,
            server_cpu=server_cpu,
            generator_cpu=generator_cpu,
            bytes_received=self._bytes - size,
            **{name: summary(values) for name, values in latencies.items()},
        )

    def _server_cpu(self) -> float:
        return cpu_seconds(self._assignment.endpoint.pids)

    def _open(self, command: Open) -> dict[str, list[float]]:
        """Open watches; latency counts from the beginning, as each of many clients that connect at once waits."""
        begin = time.perf_counter()
        self._completed_at = []
        for watcher in self._new_watchers(command):
            self._start_opening(watcher)
            while len(self._opening) >= command.window:
                self._poll_once()
        while self._opening or self._behind:
            self._poll_once()
        return {"latency_ms": [moment - begin for moment in self._completed_at]}

    def _new_watchers(self, command: Open) -> Iterator[Watcher]:
        endpoint = self._assignment.endpoint
        paths = cycle([_watch_request(path, endpoint.token, command.websocket) for path in command.paths])
        first = len(self._watchers)
        for index, path in zip(range(first, first + command.watchers), paths, strict=False):
            yield Watcher(
                index,
                endpoint,
                path,
                self._context,
                got=self._expected - command.missed,
                stalled=command.stalled,
                websocket=command.websocket,
            )

    def _start_opening(self, watcher: Watcher) -> None:
        mask = watcher.advance()
        self._opening[watcher.fileno()] = watcher
        self._poll.register(watcher.fileno(), mask)

    def _continue_opening(self, watcher: Watcher) -> None:
        """Continue to open a watch; once its response begins, the pool reads its events."""
        mask = watcher.advance()
        if mask:
            self._poll.modify(watcher.fileno(), mask)
            return
        del self._opening[watcher.fileno()]
        self._watchers[watcher.fileno()] = watcher
        if watcher.got == self._expected:
            self._completed_at.append(time.perf_counter())
        elif not watcher.stalled:
            self._behind += 1
        self._read(watcher)
        if watcher.stalled:
            self._poll.unregister(watcher.fileno())

    def _deliver(self, command: Deliver) -> dict[str, list[float]]:
        latencies: list[float] = []
        last: list[float] = []
        write_seconds: list[float] = []
        self._completed_at = []
        for _ in range(command.events // command.step):
            begin = self._step(command.step, write_seconds)
            if command.step == 1 and self._completed_at:
                latencies += [moment - begin for moment in self._completed_at]
                last.append(max(self._completed_at) - begin)
        return {"latency_ms": latencies, "last_ms": last, "write_ms": write_seconds}

    def _step(self, events: int, write_seconds: list[float]) -> float:
        """Write this many events and wait until every watcher has them; returns the time of the first write."""
        writes = [next(self._writes) for _ in range(events)]
        self._expect(events)
        begin = time.perf_counter()
        in_flight = 0
        for connection in self._writers.values():
            if writes:
                connection.started = time.perf_counter()
                connection.send(writes.pop())
                in_flight += 1
        while in_flight or self._behind:
            for connection in self._poll_once():
                write_seconds.append(time.perf_counter() - connection.started)
                in_flight -= 1
                if writes:
                    connection.started = time.perf_counter()
                    connection.send(writes.pop())
                    in_flight += 1
        return begin

    def _expect(self, events: int) -> None:
        self._expected += events
        self._completed_at = []
        self._behind = sum(not watcher.stalled for watcher in self._watchers.values())

    def _poll_until_complete(self) -> None:
        while self._behind:
            self._poll_once()

    def _poll_once(self) -> list[Connection]:
        """Process all ready sockets; returns the writers whose response is complete."""
        watchers = self._watchers
        done: list[Connection] = []
        for fd, _ in self._ready():
            if fd in watchers:
                self._read(watchers[fd])
            elif fd in self._opening:
                self._continue_opening(self._opening[fd])
            else:
                done += self._completed_write(self._writers[fd])
        return done

    def _read(self, watcher: Watcher) -> None:
        size, events = watcher.read(self._buffer)
        self._bytes += size
        if events:
            self._events += events
            if watcher.got >= self._expected:
                self._record_complete(watcher, events)

    def _record_complete(self, watcher: Watcher, events: int) -> None:
        if watcher.got > self._expected or watcher.got - events >= self._expected:
            raise NotServed(f"watcher {watcher.index} got {watcher.got} events instead of {self._expected}")
        self._behind -= 1
        self._completed_at.append(time.perf_counter())

    def _ready(self) -> list[tuple[int, int]]:
        ready = self._poll.poll(STALL_TIMEOUT, _MAX_READY)
        if not ready:
            missing = [watcher.index for watcher in self._watchers.values() if watcher.got < self._expected]
            raise NoProgress(
                f"no byte for {STALL_TIMEOUT:.0f} seconds; "
                f"{len(missing)} watchers have fewer than {self._expected} events"
            )
        return ready

    def _open_writers(self, count: int) -> None:
        endpoint = self._assignment.writer
        context = client_context() if endpoint.tls else None
        for index in range(count):
            connection = Connection(index, endpoint, context, keep_body=False)
            self._writers[connection.fileno()] = connection
            self._poll.register(connection.fileno(), select.EPOLLIN)

    def _completed_write(self, connection: Connection) -> list[Connection]:
        if not connection.read(self._buffer, self._view):
            return []
        if connection.response.status >= 300:
            raise NotServed(
                f"the response to a write was {connection.response.status}: {connection.response.body[:300]!r}"
            )
        return [connection]

    def _close_writers(self) -> None:
        for fd, connection in self._writers.items():
            self._poll.unregister(fd)
            connection.close()
        self._writers.clear()

    def _release(self) -> dict[str, list[float]]:
        begin = time.perf_counter()
        stalled = [watcher for watcher in self._watchers.values() if watcher.stalled]
        self._completed_at = []
        for watcher in stalled:
            watcher.stalled = False
            self._poll.register(watcher.fileno(), select.EPOLLIN)
        self._behind = sum(watcher.got < self._expected for watcher in stalled)
        self._poll_until_complete()
        return {"latency_ms": [moment - begin for moment in self._completed_at]}


def _watch_request(path: str, token: str, websocket: bool) -> bytes:
    plain_request = request("GET", path, token=token)
    if not websocket:
        return plain_request
    upgrade = (
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: YmVuY2htYXJrcyBrZXkhIQ==\r\n\r\n"
    )
    return plain_request[:-2] + upgrade


def _writes(assignment: Assignment) -> Iterator[bytes]:
    """An endless series of PUT requests; each changes its object, since an unchanged object causes no event."""
    token, number = assignment.writer.token, 0
    while True:
        name = f"w-{number % OBJECTS:02}"
        body = watched_object(name, number, assignment.payload)
        yield request("PUT", f"{assignment.objects}/{name}", token=token, body=body)
        number += 1


def watched_object(name: str, number: int, payload: int) -> bytes:
    labels = f'{{"app":"bench","shard":"{number % OBJECTS}"}}'
    metadata = f'{{"name":"{name}","labels":{labels},"annotations":{{"number":"{number:08}"}}}}'
    data = f'{{"payload":"{"x" * payload}","seal":"{MARK.decode()}"}}'
    return f'{{"metadata":{metadata},"data":{data}}}'.encode()
