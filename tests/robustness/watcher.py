"""One client that watches: a thread, one stream at a time on its own connection, through all runs of the server.

It misbehaves as clients do: disconnects suddenly, stops reading for a while, reads in small pieces. When `read_only`
is set, it only reads.
"""

from __future__ import annotations

import json
import random
import socket
import ssl
import struct
import threading
import time

from tests.robustness.client import ConnectionBroken, ServerGone
from tests.robustness.cluster import LOOPBACK, TIMEOUT, Cluster
from tests.robustness.observations import Stream
from tests.robustness.transports import Transport
from tests.robustness.watching_client import WatchingClient

DISCONNECT, STALL = 0.01, 0.015  # probabilities, after each read
LONGEST_STALL = 2.5  # seconds; most are much shorter
SMALL_WINDOW = 4096  # bytes: a client that does not read soon falls behind
RETRY_SECONDS = 0.03
_POLL_SECONDS = 0.1
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Watcher:
    def __init__(self, client: WatchingClient, cluster: Cluster, rng: random.Random) -> None:
        self._client = client
        self._cluster = cluster
        self._rng = rng
        self._read_only = client.read_only
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
        settings = self._client.settings
        transport = settings.transport()
        with connected(self._cluster, transport.secure, transport.protocols, settings.window) as connection:
            stream, target = self._client.begin(type(transport).__name__)
            transport.request(target)
            try:
                connection.sendall(transport.outgoing())
                self._read(connection, transport, stream)
            except OSError as error:
                stream.ending = f"connection error: {error!r}"
            finally:
                self._client.end(stream)
        if not stream.accepted:
            time.sleep(RETRY_SECONDS)

    def _read(self, connection: socket.socket, transport: Transport, stream: Stream) -> None:
        while not transport.finished:
            try:
                data = connection.recv(self._rng.choice((100, 4096, 65536)))
            except TimeoutError:
                continue
            if not data:
                stream.ending = "connection closed"
                return
            for document in transport.receive(data):
                self._client.record(stream, json.loads(document))
            stream.status = transport.status
            if not transport.open:
                self._client.refused(stream)
                return
            if response := transport.outgoing():
                connection.sendall(response)
            if not self._read_only.is_set() and not transport.finished and self._misbehaves(connection):
                stream.ending = "disconnected by the client"
                return
        stream.ending = "complete"

    def _misbehaves(self, connection: socket.socket) -> bool:
        """Stall for a while, or disconnect (True)."""
        dice = self._rng.random()
        if dice < DISCONNECT:
            if dice < DISCONNECT / 2:
                reset_on_close(connection)
            return True
        if dice < DISCONNECT + STALL:
            self._read_only.wait(self._rng.random() ** 3 * LONGEST_STALL)
        return False


def reset_on_close(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


def connected(cluster: Cluster, secure: bool, protocols: tuple[str, ...], window: int) -> socket.socket:
    """Connect; `window` is the size of the receive buffer, if not 0."""
    plain = socket.socket()
    # Wrapped before it is connected: then one object owns the socket, even if the handshake fails.
    connection = _insecure_context(protocols).wrap_socket(plain) if secure else plain
    try:
        if window:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        connection.settimeout(TIMEOUT)
        connection.connect((LOOPBACK, cluster.secure_port if secure else cluster.port))
    except BaseException:
        connection.close()
        raise
    connection.settimeout(_POLL_SECONDS)
    return connection


def _insecure_context(protocols: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    return context
