"""Loads that cost the client little: on two cores, a server with two workers gets only what its clients leave.

`benchmarks.loads` parses every response and takes a third of a get's cost. Here connections repeat one request, and a
response is complete when as many bytes have arrived as the first one had; watchers leave their events in the buffers of
the kernel, which says how many bytes there are, and the client reads and counts them afterwards. Plain HTTP only.
"""

from __future__ import annotations

import array
import fcntl
import select
import socket
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.loads.connection import Http1Connection, connect
from benchmarks.loads.http1 import RequestEncoder, Response
from benchmarks.loads.request import Request
from benchmarks.servers.cpu import cpu_of_each
from benchmarks.servers.endpoint import Endpoint
from benchmarks.watchers.watcher import MARK

STALL_TIMEOUT = 30.0
BUFFER = 1 << 20
POLL_INTERVAL = 0.0005


class Stalled(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Round:
    operations: int
    seconds: float
    server_cpu: float  # of all processes
    busiest_cpu: float  # of the process that used most
    client_cpu: float

    @property
    def rate(self) -> float:
        return self.operations / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.server_cpu / self.operations * 1e6

    @property
    def capacity(self) -> float:
        """Operations per second if every process of the server had a core, and the client others."""
        return self.operations / self.busiest_cpu


class Load(Protocol):
    def round(self, seconds: float) -> Round: ...

    def close(self) -> None: ...


def measured(pids: Sequence[int], work: Callable[[], int]) -> Round:
    """Run `work`, which returns how many operations it made."""
    before, own, begin = cpu_of_each(pids), time.process_time(), time.perf_counter()
    operations = work()
    seconds, client = time.perf_counter() - begin, time.process_time() - own
    used = [cpu - before.get(pid, 0.0) for pid, cpu in cpu_of_each(pids).items()]
    return Round(operations, seconds, sum(used), max(used), client)


class Repeated:
    """Repeats one request over several connections."""

    def __init__(self, endpoint: Endpoint, path: str, connections: int) -> None:
        self._pids = endpoint.pids
        self._request = RequestEncoder(endpoint.token).encode(Request("GET", path))
        self._socks = [connect(endpoint, None) for _ in range(connections)]
        self._buffer = bytearray(BUFFER)
        self._sizes = {sock.fileno(): self._first(sock) for sock in self._socks}
        self._poll = select.epoll()
        for sock in self._socks:
            sock.setblocking(False)
            self._poll.register(sock.fileno(), select.EPOLLIN)

    def _first(self, sock: socket.socket) -> int:
        """The bytes of a response."""
        sock.sendall(self._request)
        response, size, view = Response(False), 0, memoryview(self._buffer)
        while True:
            received = sock.recv_into(self._buffer)
            size += received
            if not received or response.feed(view[:received]):
                break
        if response.status != 200:
            raise Stalled(f"the first response was {response.status}")
        return size

    def round(self, seconds: float) -> Round:
        return measured(self._pids, lambda: self._drive(time.perf_counter() + seconds))

    def _drive(self, deadline: float) -> int:
        socks = {sock.fileno(): sock for sock in self._socks}
        left = dict(self._sizes)
        request, buffer, poll, sizes = self._request, self._buffer, self._poll.poll, self._sizes
        done, waiting, now = 0, len(socks), time.perf_counter
        for sock in self._socks:
            sock.send(request)
        while waiting:
            ready = poll(STALL_TIMEOUT)
            if not ready:
                raise Stalled("no byte of a response: its length may have changed")
            running = now() < deadline
            for fd, _ in ready:
                sock = socks[fd]
                left[fd] -= sock.recv_into(buffer)
                if left[fd] <= 0:
                    done += 1
                    left[fd] = sizes[fd]
                    if running:
                        sock.send(request)
                    else:
                        waiting -= 1
        return done

    def close(self) -> None:
        for sock in self._socks:
            sock.close()
        self._poll.close()


class Creates:
    """New objects over several connections, each with its own names."""

    def __init__(self, endpoint: Endpoint, path: str, connections: int) -> None:
        self._pids, self._path = endpoint.pids, path
        self._connections = [
            Http1Connection(index, endpoint, None, keep_body=False) for index in range(connections)
        ]
        self._made = 0
        self._buffer = bytearray(BUFFER)
        self._begun: dict[Http1Connection, float] = {}
        self.latencies: list[float] = []  # seconds, of all rounds

    def round(self, seconds: float) -> Round:
        return measured(self._pids, lambda: self._drive(time.perf_counter() + seconds))

    def _drive(self, deadline: float) -> int:
        poll, view, before = select.epoll(), memoryview(self._buffer), self._made
        connections = {each.fileno(): each for each in self._connections}
        for fd, each in connections.items():
            poll.register(fd, select.EPOLLIN)
            self._create(each)
        waiting = len(connections)
        while waiting:
            ready = poll.poll(STALL_TIMEOUT)
            if not ready:
                raise Stalled("a create has no response")
            for fd, _ in ready:
                if not connections[fd].read(self._buffer, view):
                    continue
                if connections[fd].exchanges[0].response.status != 201:
                    raise Stalled(f"a create got {connections[fd].exchanges[0].response.status}")
                now = time.perf_counter()
                self.latencies.append(now - self._begun[connections[fd]])
                if now < deadline:
                    self._create(connections[fd])
                else:
                    waiting -= 1
        poll.close()
        return self._made - before

    def _create(self, connection: Http1Connection) -> None:
        self._made += 1
        body = b'{"metadata":{"name":"c-%d"},"data":{"payload":"%s"}}' % (self._made, b"x" * 900)
        self._begun[connection] = time.perf_counter()
        connection.start(connection.exchanges[0], Request("POST", self._path, body))

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class Deliveries:
    """Events to many watchers, one at a time: each is complete when the kernel has its bytes for every watcher."""

    BURST = 24  # events before the watchers read: their bytes fit into a receive buffer

    def __init__(self, endpoint: Endpoint, path: str, watches: Sequence[str], body: bytes) -> None:
        """`body` is a merge patch of the object at `path`, in which NUMBER is replaced; it contains one MARK."""
        self._pids, self._path, self._body = endpoint.pids, path, body
        self._encoder = RequestEncoder(endpoint.token)
        self._writer = connect(endpoint, None)
        self._socks = [self._watch(endpoint, watch) for watch in watches]
        self._number = 0
        self._buffer = bytearray(BUFFER)
        self._size = self._first()

    def _watch(self, endpoint: Endpoint, path: str) -> socket.socket:
        sock = connect(endpoint, None)
        sock.sendall(self._encoder.encode(Request("GET", path)))
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(4096)
        if not head.startswith(b"HTTP/1.1 200"):
            raise Stalled(f"a watch got {head[:200]!r}")
        return sock

    def _first(self) -> int:
        """The bytes of an event; every event has as many, because numbers have the same length."""
        self._write()
        deadline = time.perf_counter() + STALL_TIMEOUT
        while not (size := _unread(self._socks[-1])):
            if time.perf_counter() > deadline:
                raise Stalled("a watcher has no event")
        time.sleep(1.0)
        self._drain(1)
        return size

    def _write(self) -> None:
        self._number += 1
        body = self._body.replace(b"NUMBER", b"%08d" % self._number)
        self._writer.sendall(
            self._encoder.encode(Request("PATCH", self._path, body, "application/merge-patch+json"))
        )
        response, view = Response(False), memoryview(bytearray(1 << 16))
        while True:
            received = self._writer.recv_into(view)
            if not received or response.feed(view[:received]):
                break
        if response.status != 200:
            raise Stalled(f"a write got {response.status}")

    def round(self, seconds: float) -> Round:
        """At least one burst; reading between bursts does not count."""
        rounds: list[Round] = []
        while sum(each.seconds for each in rounds) < seconds:
            rounds.append(measured(self._pids, self._burst))
            self._drain(self.BURST)
        return Round(
            *(
                sum(getattr(each, name) for each in rounds)
                for name in ("operations", "seconds", "server_cpu")
            ),
            busiest_cpu=sum(each.busiest_cpu for each in rounds),
            client_cpu=sum(each.client_cpu for each in rounds),
        )

    def _burst(self) -> int:
        for event in range(1, self.BURST + 1):
            self._write()
            wanted, deadline = event * self._size, time.perf_counter() + STALL_TIMEOUT
            # From the last one that was opened, which usually is the last to get it: one question for most watchers.
            for sock in reversed(self._socks):
                while _unread(sock) < wanted:
                    if time.perf_counter() > deadline:
                        raise Stalled("a watcher has no event")
                    time.sleep(POLL_INTERVAL)
        return self.BURST * len(self._socks)

    def _drain(self, events: int) -> None:
        for sock in self._socks:
            found = bytes(self._buffer[: sock.recv_into(self._buffer)]).count(MARK)
            if found != events:
                raise Stalled(f"a watcher got {found} events instead of {events}")

    def close(self) -> None:
        for sock in (self._writer, *self._socks):
            sock.close()


_COUNT = array.array("i", [0])


def _unread(sock: socket.socket) -> int:
    """Bytes that have arrived and were not read."""
    fcntl.ioctl(sock.fileno(), termios.FIONREAD, _COUNT)
    return _COUNT[0]
