"""One client that watches: a thread, one stream at a time, through every life of the server.

It resumes from the last version it received, as clients should, and misbehaves as clients do: leaves without a
word, stops reading for a while, reads in small pieces. Once told to be calm it only reads.
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

from tests.robustness.client import Broken, Client, Gone
from tests.robustness.cluster import LOOPBACK, PATIENCE, Cluster
from tests.robustness.course import ADDED, BOOKMARK, ERROR, Course, Listing, Seen, Sightings, Stream
from tests.robustness.expected import Expected, fold
from tests.robustness.interest import Interest
from tests.robustness.memory import Memory
from tests.robustness.objects import KINDS, Document, Key, bare, key_of, version_of
from tests.robustness.wires import Wire

BEGINNINGS = ("unset", "zero", "list", "past")
LEAVE, STALL = 0.01, 0.015  # chances, each time that something came
FORGET = 0.3  # chance, at the end of a stream: the next client in its place knows nothing
LONGEST_STALL = 2.5  # seconds; most are much shorter
SMALL_WINDOW = 4096  # bytes: one that does not read is soon behind
GONE = 410
_GLANCE = 0.1
_RETRY = 0.03
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Habits:
    """What a watcher asks for, the same way each time."""

    name: str
    interest: Interest
    wire: type[Wire]
    beginning: str
    bookmarks: bool
    old_path: bool
    seconds: int  # of timeoutSeconds; 0: not named
    window: int  # bytes of its receive buffer; 0: what the system gives


class Watcher:
    def __init__(
        self, habits: Habits, cluster: Cluster, sightings: Sightings, memory: Memory, chance: random.Random
    ) -> None:
        self.habits = habits
        self._cluster = cluster
        self._sightings = sightings
        self._memory = memory
        self._chance = chance
        self._course: Course | None = None
        self._position: int | None = None  # where to resume; None: begin anew
        self.calm = threading.Event()
        self.leaving = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.leaving.is_set():
                try:
                    self._follow()
                except (Gone, Broken, OSError):
                    time.sleep(_RETRY)
        except BaseException as error:  # told by whoever joins this thread
            self.failure = error

    def has_all(self, expected: Expected) -> bool:
        """Whether it has been told everything that the log had for it."""
        course, position = self._course, self._position
        if course is None or self.failure is not None:
            return self.failure is not None
        if position is not None:
            return position >= expected.last
        return fold({}, course.streams[-1].events if course.streams else ()) == expected.state(expected.last)

    # Streams.

    def _follow(self) -> None:
        wire = self.habits.wire()
        with self._connected(wire) as connection:
            course = self._resumed() or self._begun()
            stream = Stream(type(wire).__name__, self._position)
            if self._position is None and self.habits.beginning == "unset":
                stream.least = max(self._memory.versions[-20:], default=0)
            wire.ask(self._target())
            stream.sent = time.time()
            connection.sendall(wire.outgoing())
            course.streams.append(stream)
            try:
                self._read(connection, wire, stream)
            except OSError as error:
                stream.ending = f"cut: {error!r}"
            finally:
                stream.ended = time.time()
        if not stream.answered:
            time.sleep(_RETRY)
        elif not self.calm.is_set() and self._chance.random() < FORGET:
            self._position = None

    def _resumed(self) -> Course | None:
        return self._course if self._position is not None else None

    def _begun(self) -> Course:
        """A new course; the position it starts from, unless the server is to send the state."""
        habits = self.habits
        course = Course(habits.name, habits.interest, habits.beginning)
        # A past that is over for good would be tried for ever.
        if habits.beginning == "list" or (habits.beginning == "past" and self.calm.is_set()):
            client = Client(self._cluster.port)
            try:
                course.listing = listed(client, habits.interest)
            finally:
                client.close()
            self._position = course.listing.version
        elif habits.beginning == "past" and self._memory.versions:
            self._position = self._chance.choice(self._memory.versions[-500:])
        self._sightings.courses.append(course)
        self._course = course
        return course

    def _target(self) -> str:
        habits = self.habits
        query: dict[str, object] = {"resourceVersion": "" if self._position is None else self._position}
        if self._position is None and habits.beginning == "zero":
            query["resourceVersion"] = 0
        if habits.bookmarks:
            query["allowWatchBookmarks"] = "true"
        if habits.seconds:
            query["timeoutSeconds"] = habits.seconds
        return habits.interest.watching(old_path=habits.old_path, **query)

    def _connected(self, wire: Wire) -> socket.socket:
        plain = socket.socket()
        # Encrypted before it is connected: then one object owns the socket, whatever becomes of the handshake.
        connection = _trusting(wire.protocols).wrap_socket(plain) if wire.secure else plain
        try:
            if self.habits.window:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.habits.window)
            connection.settimeout(PATIENCE)
            connection.connect((LOOPBACK, self._cluster.secure_port if wire.secure else self._cluster.port))
        except BaseException:
            connection.close()
            raise
        connection.settimeout(_GLANCE)
        return connection

    # Reading.

    def _read(self, connection: socket.socket, wire: Wire, stream: Stream) -> None:
        while not wire.finished:
            try:
                data = connection.recv(self._chance.choice((100, 4096, 65536)))
            except TimeoutError:
                continue
            if not data:
                stream.ending = "cut"
                return
            for document in wire.hear(data):
                self._note(stream, json.loads(document))
            stream.status = wire.status
            if not wire.open:
                stream.ending = f"refused with {wire.status}"
                if wire.status == GONE:
                    self._position = None
                return
            if answer := wire.outgoing():
                connection.sendall(answer)
            if not self.calm.is_set() and not wire.finished and self._misbehaves(connection):
                stream.ending = "left"
                return
        stream.ending = "in good order"

    def _misbehaves(self, connection: socket.socket) -> bool:
        """Stall for a while, or leave."""
        dice = self._chance.random()
        if dice < LEAVE:
            if dice < LEAVE / 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            return True
        if dice < LEAVE + STALL:
            self.calm.wait(self._chance.random() ** 3 * LONGEST_STALL)
        return False

    def _note(self, stream: Stream, document: Document) -> None:
        assert set(document) == {"type", "object"}, f"no event: {document}"
        kind, shown = document["type"], document["object"]
        if kind == ERROR:
            stream.error = shown
            self._position = None
            return
        assert stream.error is None, f"{document} behind an error"
        event = seen(self.habits.interest, kind, shown)
        stream.events.append(event)
        # Objects of the state come with versions of their own; anything else tells where the stream is.
        if self._position is not None or kind != ADDED:
            self._position = event.version


def seen(interest: Interest, kind: str, shown: Document) -> Seen:
    expected = KINDS[interest.plural].kind
    assert shown["kind"] == expected, f"{kind} of a {shown['kind']}, not {expected}"
    if kind == BOOKMARK:
        assert set(shown) == {"kind", "apiVersion", "metadata"}, f"a bookmark that says more: {shown}"
        assert set(shown["metadata"]) == {"resourceVersion"}, f"a bookmark that says more: {shown}"
        return Seen(kind, version_of(shown), Key(interest.plural, "", ""), {})
    return Seen(kind, version_of(shown), key_of(interest.plural, shown), bare(shown))


def listed(client: Client, interest: Interest) -> Listing:
    status, answer = client.call("GET", interest.listing())
    if status != 200:
        raise Broken(f"{status} {answer}")
    items = {key_of(interest.plural, item): bare(item) for item in answer["items"]}
    return Listing(interest, int(answer["metadata"]["resourceVersion"]), items)


def _trusting(protocols: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    return context
