"""All watchers of a watching process and the connections that write what they see, on one epoll.

One thread, one buffer, a `recv_into` and a count of bytes per readable socket: on two cores whatever the crowd
needs is missing to the server. CPU clocks are read when all is quiet, so that they count exactly the events
counted. Every watcher must get every event once: too many are as wrong as too few.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from itertools import cycle

from benchmarks.loads.connection import Lane, client_context
from benchmarks.loads.http1 import request
from benchmarks.loads.latency import summary
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.watchers.requests import Assignment, Close, Deliver, Done, Open, Order, Release
from benchmarks.watchers.watcher import MARK, NotServed, Watcher

STALLED = 30.0  # seconds without a byte on any connection: the server hangs
_BUFFER = 1 << 18
_READY = 1024  # sockets told of by one call of epoll
OBJECTS = 16  # objects that are written in turn


class Hangs(Exception):
    pass


class Crowd:
    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._context = client_context() if assignment.target.tls else None
        self._poll = select.epoll()
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._watchers: dict[int, Watcher] = {}  # by file number, those that are answered
        self._opening: dict[int, Watcher] = {}
        self._writers: dict[int, Lane] = {}
        self._writes = _writes(assignment)
        self._level = 0  # events that everybody should have
        self._waiting = 0  # watchers that read and have fewer
        self._bytes = self._events = 0
        self._arrivals: list[float] = []  # when a watcher had everything

    def perform(self, order: Order) -> Done:
        if isinstance(order, Deliver):
            self._hire(order.writers)
        cpu, own = self._server_cpu(), time.process_time()
        begin, size, events = time.perf_counter(), self._bytes, self._events
        match order:
            case Open():
                latencies = self._open(order)
            case Deliver():
                latencies = self._deliver(order)
            case Release():
                latencies = self._release()
            case Close():
                latencies = self._close()
        seconds = time.perf_counter() - begin
        server_cpu, generator_cpu = self._server_cpu() - cpu, time.process_time() - own
        self._dismiss()
        return Done(
            deliveries=self._events - events,
            seconds=seconds,
            server_cpu=server_cpu,
            generator_cpu=generator_cpu,
            bytes_received=self._bytes - size,
            **{name: summary(values) for name, values in latencies.items()},
        )

    def _server_cpu(self) -> float:
        return cpu_seconds(self._assignment.target.pids)

    # Opening.

    def _open(self, order: Open) -> dict[str, list[float]]:
        """Arrivals are counted from the beginning: what a client of many that come at once waits for."""
        begin = time.perf_counter()
        self._arrivals = []
        for watcher in self._coming(order):
            self._approach(watcher)
            while len(self._opening) >= order.window:
                self._pump()
        while self._opening or self._waiting:
            self._pump()
        return {"latency_ms": [moment - begin for moment in self._arrivals]}

    def _coming(self, order: Open) -> Iterator[Watcher]:
        target = self._assignment.target
        paths = cycle([_watch_request(path, target.token, order.websocket) for path in order.paths])
        first = len(self._watchers)
        for index, path in zip(range(first, first + order.watchers), paths, strict=False):
            yield Watcher(
                index,
                target,
                path,
                self._context,
                got=self._level - order.missed,
                stalled=order.stalled,
                websocket=order.websocket,
            )

    def _approach(self, watcher: Watcher) -> None:
        wanted = watcher.advance()
        self._opening[watcher.fileno()] = watcher
        self._poll.register(watcher.fileno(), wanted)

    def _go_on(self, watcher: Watcher) -> None:
        """One more step of opening; who is answered belongs to the crowd."""
        wanted = watcher.advance()
        if wanted:
            self._poll.modify(watcher.fileno(), wanted)
            return
        del self._opening[watcher.fileno()]
        self._watchers[watcher.fileno()] = watcher
        if watcher.got == self._level:
            self._arrivals.append(time.perf_counter())
        elif not watcher.stalled:
            self._waiting += 1
        self._read(watcher)
        if watcher.stalled:
            self._poll.unregister(watcher.fileno())

    # Delivering.

    def _deliver(self, order: Deliver) -> dict[str, list[float]]:
        latencies: list[float] = []
        last: list[float] = []
        answered: list[float] = []
        self._arrivals = []
        for _ in range(order.events // order.step):
            begin = self._step(order.step, answered)
            if order.step == 1 and self._arrivals:
                latencies += [moment - begin for moment in self._arrivals]
                last.append(max(self._arrivals) - begin)
        return {"latency_ms": latencies, "last_ms": last, "write_ms": answered}

    def _step(self, events: int, answered: list[float]) -> float:
        """Write so many events and wait for everybody; the moment of the first write."""
        writes = [next(self._writes) for _ in range(events)]
        self._expect(events)
        begin = time.perf_counter()
        flying = 0
        for lane in self._writers.values():
            if writes:
                lane.started = time.perf_counter()
                lane.send(writes.pop())
                flying += 1
        while flying or self._waiting:
            for lane in self._pump():
                answered.append(time.perf_counter() - lane.started)
                flying -= 1
                if writes:
                    lane.started = time.perf_counter()
                    lane.send(writes.pop())
                    flying += 1
        return begin

    def _expect(self, events: int) -> None:
        self._level += events
        self._arrivals = []
        self._waiting = sum(not watcher.stalled for watcher in self._watchers.values())

    def _pump_until_all(self) -> None:
        while self._waiting:
            self._pump()

    def _pump(self) -> list[Lane]:
        """Take what has arrived; the writers whose answers are in."""
        watchers = self._watchers
        done: list[Lane] = []
        for fd, _ in self._ready():
            if fd in watchers:
                self._read(watchers[fd])
            elif fd in self._opening:
                self._go_on(self._opening[fd])
            else:
                done += self._answered(self._writers[fd])
        return done

    def _read(self, watcher: Watcher) -> None:
        size, events = watcher.read(self._buffer)
        self._bytes += size
        if events:
            self._events += events
            if watcher.got >= self._level:
                self._arrived(watcher, events)

    def _arrived(self, watcher: Watcher, events: int) -> None:
        if watcher.got > self._level or watcher.got - events >= self._level:
            raise NotServed(f"watcher {watcher.index} got {watcher.got} events of {self._level}")
        self._waiting -= 1
        self._arrivals.append(time.perf_counter())

    def _ready(self) -> list[tuple[int, int]]:
        ready = self._poll.poll(STALLED, _READY)
        if not ready:
            missing = [watcher.index for watcher in self._watchers.values() if watcher.got < self._level]
            raise Hangs(
                f"no byte for {STALLED:.0f} seconds; {len(missing)} watchers have fewer than {self._level} events"
            )
        return ready

    # Writing.

    def _hire(self, count: int) -> None:
        target = self._assignment.writer
        context = client_context() if target.tls else None
        for index in range(count):
            lane = Lane(index, target, context, keep_body=False)
            self._writers[lane.fileno()] = lane
            self._poll.register(lane.fileno(), select.EPOLLIN)

    def _answered(self, lane: Lane) -> list[Lane]:
        if not lane.read(self._buffer, self._view):
            return []
        if lane.answer.status >= 300:
            raise NotServed(f"a write was answered with {lane.answer.status}: {lane.answer.body[:300]!r}")
        return [lane]

    def _dismiss(self) -> None:
        for fd, lane in self._writers.items():
            self._poll.unregister(fd)
            lane.close()
        self._writers.clear()

    # Stalling and ending.

    def _release(self) -> dict[str, list[float]]:
        begin = time.perf_counter()
        stalled = [watcher for watcher in self._watchers.values() if watcher.stalled]
        self._arrivals = []
        for watcher in stalled:
            watcher.stalled = False
            self._poll.register(watcher.fileno(), select.EPOLLIN)
        self._waiting = sum(watcher.got < self._level for watcher in stalled)
        self._pump_until_all()
        return {"latency_ms": [moment - begin for moment in self._arrivals]}

    def _close(self) -> dict[str, list[float]]:
        for watcher in self._watchers.values():
            watcher.close()
        self._watchers.clear()
        self._waiting = 0
        return {}


def _watch_request(path: str, token: str, websocket: bool) -> bytes:
    asked = request("GET", path, token=token)
    if not websocket:
        return asked
    upgrade = (
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: YmVuY2htYXJrcyBrZXkhIQ==\r\n\r\n"
    )
    return asked[:-2] + upgrade


def _writes(assignment: Assignment) -> Iterator[bytes]:
    """Replacements without end; none equals the one before, which would make no event."""
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
