"""All watchers of a watcher process and the connections that write what they watch, on one epoll.

One thread, one buffer, one `recv_into` and one count of bytes per readable socket (over HTTP/2 per frame): on two cores
the server lacks whatever CPU the watchers use. Writers use HTTP/1.1 whatever the transport of the watchers, so that
writes cost the same beside all of them. The pool reads CPU clocks while nothing is in flight, so that they count
exactly the counted events. Every watcher must get every event exactly once: too many fail the workload as too few do.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from itertools import cycle, islice

from benchmarks.loads.connection import Http1Connection, client_context
from benchmarks.loads.http1 import RequestEncoder
from benchmarks.loads.job import HTTP2
from benchmarks.loads.latency import summary
from benchmarks.loads.request import Request
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.watchers.commands import WEBSOCKET, Assignment, Command, CommandResult, Deliver, Open, Release
from benchmarks.watchers.http2_watches import Http2Watches
from benchmarks.watchers.watcher import (
    MARK,
    STREAM,
    SWITCHED,
    Http1Watch,
    NotServed,
    WatchConnection,
    Watcher,
)

STALL_TIMEOUT = 30.0  # seconds without a byte on any connection before the pool gives up
_BUFFER = 1 << 18
_MAX_READY = 1024  # maximum number of sockets that one call of epoll reports
OBJECTS = 16  # objects that the writers replace in turn


class NoProgress(Exception):
    pass


class WatcherPool:
    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._poll = select.epoll()
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._watchers: list[Watcher] = []
        self._connections: dict[int, WatchConnection] = {}  # by file descriptor; those whose watches are open
        self._opening: dict[int, WatchConnection] = {}
        self._writers: dict[int, Http1Connection] = {}
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
        for connection in self._new_connections(command):
            self._start_opening(connection)
            while len(self._opening) >= command.window:
                self._poll_once()
        while self._opening or self._behind:
            self._poll_once()
        return {"latency_ms": [moment - begin for moment in self._completed_at]}

    def _new_connections(self, command: Open) -> Iterator[WatchConnection]:
        endpoint, paths = self._assignment.endpoint, cycle(command.paths)
        http2 = command.transport == HTTP2
        context = client_context(*(["h2"] if http2 else [])) if endpoint.tls else None
        encoder = RequestEncoder(endpoint.token)
        left = command.watchers
        while left:
            count = min(left, command.per_connection)
            watchers = [self._new_watcher(command) for _ in range(count)]
            requests = tuple(Request("GET", path) for path in islice(paths, count))
            left -= count
            if http2:
                yield Http2Watches(
                    watchers,
                    endpoint,
                    requests,
                    context,
                    self._buffer,
                    self._count,
                    by_window=command.by_window,
                )
                continue
            websocket = command.transport == WEBSOCKET
            yield Http1Watch(
                watchers[0],
                endpoint,
                _with_upgrade(encoder.encode(requests[0])) if websocket else encoder.encode(requests[0]),
                context,
                self._buffer,
                self._count,
                expected=SWITCHED if websocket else STREAM,
            )

    def _new_watcher(self, command: Open) -> Watcher:
        watcher = Watcher(len(self._watchers), self._expected - command.missed, stalled=command.stalled)
        self._watchers.append(watcher)
        self._behind += watcher.got < self._expected and not watcher.stalled
        return watcher

    def _start_opening(self, connection: WatchConnection) -> None:
        mask = connection.advance()
        self._opening[connection.fileno()] = connection
        self._poll.register(connection.fileno(), mask)

    def _continue_opening(self, connection: WatchConnection) -> None:
        """Continue to open a connection; once all its responses begin, the pool reads its events."""
        had = [watcher.got for watcher in connection.watchers]
        mask = connection.advance()
        if mask:
            self._poll.modify(connection.fileno(), mask)
            return
        del self._opening[connection.fileno()]
        self._connections[connection.fileno()] = connection
        self._completed_at += [time.perf_counter() for got in had if got == self._expected]
        if connection.unread:
            self._poll.unregister(connection.fileno())

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
                _write(connection, writes.pop())
                in_flight += 1
        while in_flight or self._behind:
            for connection in self._poll_once():
                write_seconds.append(time.perf_counter() - connection.exchanges[0].started)
                in_flight -= 1
                if writes:
                    _write(connection, writes.pop())
                    in_flight += 1
        return begin

    def _expect(self, events: int) -> None:
        self._expected += events
        self._completed_at = []
        self._behind = sum(not watcher.stalled for watcher in self._watchers)

    def _poll_until_complete(self) -> None:
        while self._behind:
            self._poll_once()

    def _poll_once(self) -> list[Http1Connection]:
        """Process all ready sockets; returns the writers whose response is complete."""
        connections = self._connections
        done: list[Http1Connection] = []
        for fd, _ in self._ready():
            if fd in connections:
                self._bytes += connections[fd].read()
            elif fd in self._opening:
                self._continue_opening(self._opening[fd])
            else:
                done += self._completed_write(self._writers[fd])
        return done

    def _count(self, watcher: Watcher, events: int) -> None:
        self._events += events
        watcher.got += events
        if watcher.got >= self._expected and not watcher.stalled:
            self._record_complete(watcher, events)

    def _record_complete(self, watcher: Watcher, events: int) -> None:
        if watcher.got > self._expected or watcher.got - events >= self._expected:
            raise NotServed(f"watcher {watcher.index} got {watcher.got} events instead of {self._expected}")
        self._behind -= 1
        self._completed_at.append(time.perf_counter())

    def _ready(self) -> list[tuple[int, int]]:
        ready = self._poll.poll(STALL_TIMEOUT, _MAX_READY)
        if not ready:
            missing = [watcher.index for watcher in self._watchers if watcher.got < self._expected]
            raise NoProgress(
                f"no byte for {STALL_TIMEOUT:.0f} seconds; "
                f"{len(missing)} watchers have fewer than {self._expected} events"
            )
        return ready

    def _open_writers(self, count: int) -> None:
        endpoint = self._assignment.writer
        context = client_context() if endpoint.tls else None
        for index in range(count):
            connection = Http1Connection(index, endpoint, context, keep_body=False)
            self._writers[connection.fileno()] = connection
            self._poll.register(connection.fileno(), select.EPOLLIN)

    def _completed_write(self, connection: Http1Connection) -> list[Http1Connection]:
        if not connection.read(self._buffer, self._view):
            return []
        response = connection.exchanges[0].response
        if response.status >= 300:
            raise NotServed(f"the response to a write was {response.status}: {response.body[:300]!r}")
        return [connection]

    def _close_writers(self) -> None:
        for fd, connection in self._writers.items():
            self._poll.unregister(fd)
            connection.close()
        self._writers.clear()

    def _release(self) -> dict[str, list[float]]:
        begin = time.perf_counter()
        stalled = [each for each in self._connections.values() if each.watchers[0].stalled]
        self._completed_at = []
        self._behind = sum(
            watcher.got < self._expected for connection in stalled for watcher in connection.watchers
        )
        for connection in stalled:
            if connection.unread:
                self._poll.register(connection.fileno(), select.EPOLLIN)
            connection.release()
        self._poll_until_complete()
        return {"latency_ms": [moment - begin for moment in self._completed_at]}


def _write(connection: Http1Connection, request: Request) -> None:
    exchange = connection.exchanges[0]
    exchange.started = time.perf_counter()
    connection.start(exchange, request)


def _with_upgrade(request: bytes) -> bytes:
    """The request for a WebSocket."""
    upgrade = (
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: YmVuY2htYXJrcyBrZXkhIQ==\r\n\r\n"
    )
    return request[:-2] + upgrade


def _writes(assignment: Assignment) -> Iterator[Request]:
    """An endless series of PUT requests; each changes its object, since an unchanged object causes no event."""
    number = 0
    while True:
        name = f"w-{number % OBJECTS:02}"
        yield Request("PUT", f"{assignment.objects}/{name}", watched_object(name, number, assignment.payload))
        number += 1


def watched_object(name: str, number: int, payload: int) -> bytes:
    labels = f'{{"app":"bench","shard":"{number % OBJECTS}"}}'
    metadata = f'{{"name":"{name}","labels":{labels},"annotations":{{"number":"{number:08}"}}}}'
    data = f'{{"payload":"{"x" * payload}","seal":"{MARK.decode()}"}}'
    return f'{{"metadata":{metadata},"data":{data}}}'.encode()
