"""Several clients watch on one HTTP/2 connection: one thread, a stream and a window for each.

Its windows are small and open late, so that some streams wait while others continue. It resets single streams, stops
opening the window of one or stops reading for a while, and disconnects suddenly. When the clients are `read_only`, it
only reads.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from dataclasses import dataclass

import h2.config
import h2.connection
import h2.events
import h2.settings
from h2.errors import ErrorCodes

from tests.gateway.goaway import GoAwayFilter
from tests.robustness.client import ConnectionBroken, ServerGone
from tests.robustness.cluster import LOOPBACK, TOKEN, Cluster
from tests.robustness.observations import Stream
from tests.robustness.transports import BadFraming
from tests.robustness.watcher import (
    DISCONNECT,
    LONGEST_STALL,
    RETRY_SECONDS,
    SMALL_WINDOW,
    STALL,
    connected,
    reset_on_close,
)
from tests.robustness.watching_client import WatchingClient

NAME = "Http2Shared"
WINDOWS = (1, 700, 4_000, 65_535)  # of each stream
OPEN = 0.7  # probability, after each read, that the window of a stream opens again
_SHARED_WINDOW = 65_535


@dataclass(slots=True)
class _Open:
    """A stream that has not ended."""

    client: WatchingClient
    stream: Stream
    buffer: bytes = b""
    taken: int = 0  # bytes by which to open its window
    stalled_until: float = 0.0


class SharedConnection:
    def __init__(self, clients: list[WatchingClient], cluster: Cluster, rng: random.Random) -> None:
        self._clients = clients
        self._cluster = cluster
        self._rng = rng
        self.leaving = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.leaving.is_set():
                try:
                    self._follow()
                except (ServerGone, ConnectionBroken, OSError):
                    time.sleep(RETRY_SECONDS)
        except BaseException as error:  # raised by the thread that joins this one
            self.failure = error

    def _follow(self) -> None:
        with connected(self._cluster, True, ("h2",), self._rng.choice((0, SMALL_WINDOW))) as connection:
            streams = _Streams(connection, self._rng)
            try:
                while (not streams.goaway.received and not self.leaving.is_set()) or streams.open:
                    if not streams.goaway.received and not self.leaving.is_set():
                        for client in self._clients:
                            streams.begin(client)
                    if not streams.step(misbehave=not self._clients[0].read_only.is_set()):
                        return
            except OSError as error:
                streams.end_all(f"connection error: {error!r}")
            finally:
                streams.end_all("connection closed")
        time.sleep(RETRY_SECONDS)


class _Streams:
    def __init__(self, connection: socket.socket, rng: random.Random) -> None:
        self._connection = connection
        self._rng = rng
        self.goaway = GoAwayFilter()
        self.open: dict[int, _Open] = {}
        self._taken = 0  # bytes by which to open the window of the connection
        self._retry_at = 0.0
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        codes = h2.settings.SettingCodes
        values = {codes.INITIAL_WINDOW_SIZE: rng.choice(WINDOWS), codes.ENABLE_PUSH: 0}
        self._h2.local_settings = h2.settings.Settings(client=True, initial_values=values)
        self._h2.initiate_connection()

    def begin(self, client: WatchingClient) -> None:
        """Open a stream for a client, unless it has one."""
        if time.monotonic() < self._retry_at or any(one.client is client for one in self.open.values()):
            return
        stream, target = client.begin(NAME)
        number = self._h2.get_next_available_stream_id()
        self.open[number] = _Open(client, stream)
        pseudo = [(":method", "GET"), (":path", target), (":scheme", "https"), (":authority", LOOPBACK)]
        self._h2.send_headers(number, [*pseudo, ("authorization", f"Bearer {TOKEN}")], end_stream=True)

    def step(self, *, misbehave: bool) -> bool:
        """Send, read and handle once; False when the connection has ended."""
        self._connection.sendall(self._h2.data_to_send())
        try:
            data = self._connection.recv(self._rng.choice((100, 4096, 65536)))
        except TimeoutError:
            data = None
        if data == b"":
            return False
        for event in self._h2.receive_data(self.goaway.without_goaway(data or b"")):
            self._handle(event)
        self._open_windows(at_once=not misbehave)
        return not (misbehave and self._misbehaves())

    def end_all(self, ending: str) -> None:
        for number in list(self.open):
            self._end(number, ending)

    def _end(self, number: int, ending: str) -> None:
        one = self.open.pop(number)
        one.stream.ending = ending
        one.client.end(one.stream)

    def _handle(self, event: h2.events.Event) -> None:
        number = getattr(event, "stream_id", None) or 0
        one = self.open.get(number)
        if isinstance(event, h2.events.DataReceived):
            self._taken += event.flow_controlled_length
        if one is None:
            return
        match event:
            case h2.events.ResponseReceived(headers=headers):
                one.stream.status = int(dict(headers)[b":status"])
            case h2.events.DataReceived(data=data, flow_controlled_length=length):
                one.taken += length
                self._receive(one, data)
            case h2.events.StreamEnded():
                if one.buffer and one.stream.accepted:
                    raise BadFraming(f"the stream ended in the middle of an event: {one.buffer[-200:]!r}")
                self._end(number, "complete")
                if not one.stream.accepted:
                    one.client.refused(one.stream)
                    self._retry_at = time.monotonic() + RETRY_SECONDS
            case h2.events.StreamReset(error_code=code):
                self._end(number, f"reset by the server: {code}")
                self._retry_at = time.monotonic() + RETRY_SECONDS

    @staticmethod
    def _receive(one: _Open, data: bytes) -> None:
        if not one.stream.accepted:
            return
        *lines, one.buffer = (one.buffer + data).split(b"\n")
        for line in lines:
            one.client.record(one.stream, json.loads(line))

    def _open_windows(self, *, at_once: bool) -> None:
        if self._taken and (at_once or self._taken > _SHARED_WINDOW // 2 or self._rng.random() < OPEN):
            self._h2.increment_flow_control_window(self._taken)
            self._taken = 0
        now = time.monotonic()
        for number, one in self.open.items():
            if one.taken and (at_once or (now >= one.stalled_until and self._rng.random() < OPEN)):
                # By more than was read: a window of one byte would stay at one.
                self._h2.increment_flow_control_window(one.taken + self._rng.choice((0, 0, 500)), number)
                one.taken = 0

    def _misbehaves(self) -> bool:
        """Reset or stall a stream, stop reading for a while, or disconnect (True)."""
        dice = self._rng.random()
        if dice < DISCONNECT / 4:
            if dice < DISCONNECT / 8:
                reset_on_close(self._connection)
            self.end_all("disconnected by the client")
            return True
        if not self.open:
            return False
        number = self._rng.choice(list(self.open))
        if dice < DISCONNECT:
            self._h2.reset_stream(number, ErrorCodes.CANCEL)
            self._end(number, "reset by the client")
        elif dice < DISCONNECT + STALL:
            self.open[number].stalled_until = time.monotonic() + self._rng.random() ** 3 * LONGEST_STALL
        elif dice < DISCONNECT + STALL * 1.3:
            time.sleep(self._rng.random() ** 3 * LONGEST_STALL)
        return False
