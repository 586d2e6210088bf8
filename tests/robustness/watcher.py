"""One client that watches: a thread, one stream at a time, through all runs of the server.

It resumes from the last version it received, as clients should, and misbehaves as clients do: disconnects
suddenly, stops reading for a while, reads in small pieces. When `read_only` is set, it only reads.
"""

from __future__ import annotations

import json
import random
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass

from tests.robustness.client import Client, ConnectionBroken, ServerGone
from tests.robustness.client_cache import ClientCache
from tests.robustness.cluster import LOOPBACK, TIMEOUT, Cluster
from tests.robustness.expected_events import ExpectedEvents, fold
from tests.robustness.interest import Interest
from tests.robustness.objects import KINDS, Document, Key, bare, key_of, version_of
from tests.robustness.observations import (
    ADDED,
    BOOKMARK,
    ERROR,
    Listing,
    Observations,
    Stream,
    WatchEvent,
    WatchSession,
)
from tests.robustness.transports import Transport

STARTS = ("unset", "zero", "list", "past")
DISCONNECT, STALL = 0.01, 0.015  # probabilities, after each read
START_ANEW = 0.3  # probability, at the end of a stream, that the client does not resume
LONGEST_STALL = 2.5  # seconds; most are much shorter
SMALL_WINDOW = 4096  # bytes: a client that does not read soon falls behind
GONE = 410
_POLL_SECONDS = 0.1
_RETRY_SECONDS = 0.03
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """What a watcher requests, each time it connects."""

    name: str
    interest: Interest
    transport: type[Transport]
    start: str
    bookmarks: bool
    old_path: bool
    seconds: int  # timeoutSeconds; 0: not set
    window: int  # bytes of its receive buffer; 0: what the system gives


class Watcher:
    def __init__(
        self,
        settings: WatchSettings,
        cluster: Cluster,
        observations: Observations,
        cache: ClientCache,
        rng: random.Random,
    ) -> None:
        self.settings = settings
        self._cluster = cluster
        self._observations = observations
        self._cache = cache
        self._rng = rng
        self._session: WatchSession | None = None
        self._position: int | None = None  # where to resume; None: start anew
        self.read_only = threading.Event()
        self.leaving = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.leaving.is_set():
                try:
                    self._follow()
                except (ServerGone, ConnectionBroken, OSError):
                    time.sleep(_RETRY_SECONDS)
        except BaseException as error:  # raised by the thread that joins this one
            self.failure = error

    def has_all(self, expected: ExpectedEvents) -> bool:
        """Whether it has received every event that the log has for it."""
        session, position = self._session, self._position
        if session is None or self.failure is not None:
            return self.failure is not None
        if position is not None:
            return position >= expected.last
        return fold({}, session.streams[-1].events if session.streams else ()) == expected.state(
            expected.last
        )

    # Streams.

    def _follow(self) -> None:
        transport = self.settings.transport()
        with self._connected(transport) as connection:
            session = self._resumed() or self._new_session()
            stream = Stream(type(transport).__name__, self._position)
            if self._position is None and self.settings.start == "unset":
                stream.least = max(self._cache.versions[-20:], default=0)
            transport.request(self._target())
            stream.sent = time.time()
            connection.sendall(transport.outgoing())
            session.streams.append(stream)
            try:
                self._read(connection, transport, stream)
            except OSError as error:
                stream.ending = f"connection error: {error!r}"
            finally:
                stream.ended = time.time()
        if not stream.accepted:
            time.sleep(_RETRY_SECONDS)
        elif not self.read_only.is_set() and self._rng.random() < START_ANEW:
            self._position = None

    def _resumed(self) -> WatchSession | None:
        return self._session if self._position is not None else None

    def _new_session(self) -> WatchSession:
        """Begin a session: set the version to start from, unless the server shall send the state."""
        settings = self.settings
        session = WatchSession(settings.name, settings.interest, settings.start)
        # A version that is too old would be retried forever.
        if settings.start == "list" or (settings.start == "past" and self.read_only.is_set()):
            client = Client(self._cluster.port)
            try:
                session.listing = listed(client, settings.interest)
            finally:
                client.close()
            self._position = session.listing.version
        elif settings.start == "past" and self._cache.versions:
            self._position = self._rng.choice(self._cache.versions[-500:])
        self._observations.sessions.append(session)
        self._session = session
        return session

    def _target(self) -> str:
        settings = self.settings
        query: dict[str, object] = {"resourceVersion": "" if self._position is None else self._position}
        if self._position is None and settings.start == "zero":
            query["resourceVersion"] = 0
        if settings.bookmarks:
            query["allowWatchBookmarks"] = "true"
        if settings.seconds:
            query["timeoutSeconds"] = settings.seconds
        return settings.interest.watching(old_path=settings.old_path, **query)

    def _connected(self, transport: Transport) -> socket.socket:
        plain = socket.socket()
        # Wrapped before it is connected: then one object owns the socket, even if the handshake fails.
        connection = _insecure_context(transport.protocols).wrap_socket(plain) if transport.secure else plain
        try:
            if self.settings.window:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.settings.window)
            connection.settimeout(TIMEOUT)
            connection.connect(
                (LOOPBACK, self._cluster.secure_port if transport.secure else self._cluster.port)
            )
        except BaseException:
            connection.close()
            raise
        connection.settimeout(_POLL_SECONDS)
        return connection

    # Reading.

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
                self._record(stream, json.loads(document))
            stream.status = transport.status
            if not transport.open:
                stream.ending = f"refused with {transport.status}"
                if transport.status == GONE:
                    self._position = None
                return
            if response := transport.outgoing():
                connection.sendall(response)
            if not self.read_only.is_set() and not transport.finished and self._misbehaves(connection):
                stream.ending = "disconnected by the client"
                return
        stream.ending = "complete"

    def _misbehaves(self, connection: socket.socket) -> bool:
        """Stall for a while, or disconnect (True)."""
        dice = self._rng.random()
        if dice < DISCONNECT:
            if dice < DISCONNECT / 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            return True
        if dice < DISCONNECT + STALL:
            self.read_only.wait(self._rng.random() ** 3 * LONGEST_STALL)
        return False

    def _record(self, stream: Stream, document: Document) -> None:
        assert set(document) == {"type", "object"}, f"not an event: {document}"
        kind, shown = document["type"], document["object"]
        if kind == ERROR:
            stream.error = shown
            self._position = None
            return
        assert stream.error is None, f"{document} after an error"
        event = seen(self.settings.interest, kind, shown)
        stream.events.append(event)
        # Objects of the initial state have older versions; every other event has the version of the stream.
        if self._position is not None or kind != ADDED:
            self._position = event.version


def seen(interest: Interest, kind: str, shown: Document) -> WatchEvent:
    expected = KINDS[interest.plural].kind
    assert shown["kind"] == expected, f"{kind} of a {shown['kind']}, not {expected}"
    if kind == BOOKMARK:
        assert set(shown) == {"kind", "apiVersion", "metadata"}, f"a bookmark with more fields: {shown}"
        assert set(shown["metadata"]) == {"resourceVersion"}, f"a bookmark with more fields: {shown}"
        return WatchEvent(kind, version_of(shown), Key(interest.plural, "", ""), {})
    return WatchEvent(kind, version_of(shown), key_of(interest.plural, shown), bare(shown))


def listed(client: Client, interest: Interest) -> Listing:
    status, response = client.call("GET", interest.listing())
    if status != 200:
        raise ConnectionBroken(f"{status} {response}")
    items = {key_of(interest.plural, item): bare(item) for item in response["items"]}
    return Listing(interest, int(response["metadata"]["resourceVersion"]), items)


def _insecure_context(protocols: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    return context
