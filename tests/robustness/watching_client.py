"""What one client of a trial watches and receives, through all runs of the server and over any connection.

It resumes from the last version it received, as clients should. `Watcher` gives it its own connection,
`SharedConnection` gives several of them one HTTP/2 connection.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass

from tests.robustness.client import Client, ConnectionBroken
from tests.robustness.client_cache import ClientCache
from tests.robustness.cluster import Cluster
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
START_ANEW = 0.3  # probability, at the end of a stream, that the client does not resume
GONE = 410


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


class WatchingClient:
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
        self._position: int | None = None  # where to resume; None: start again
        self.read_only = threading.Event()

    def has_all(self, expected: ExpectedEvents) -> bool:
        """Whether it has received every event that the log has for it."""
        session, position = self._session, self._position
        if session is None:
            return False
        if position is not None:
            return position >= expected.last
        return fold({}, session.streams[-1].events if session.streams else ()) == expected.state(
            expected.last
        )

    def begin(self, transport: str) -> tuple[Stream, str]:
        """Return the record of a new stream, and its request target."""
        session = self._resumed() or self._new_session()
        stream = Stream(transport, self._position)
        if self._position is None and self.settings.start == "unset":
            stream.least = max(self._cache.versions[-20:], default=0)
        stream.sent = time.time()
        session.streams.append(stream)
        return stream, self._target()

    def refused(self, stream: Stream) -> None:
        stream.ending = f"refused with {stream.status}"
        if stream.status == GONE:
            self._position = None

    def end(self, stream: Stream) -> None:
        stream.ended = time.time()
        if stream.accepted and not self.read_only.is_set() and self._rng.random() < START_ANEW:
            self._position = None

    def _resumed(self) -> WatchSession | None:
        return self._session if self._position is not None else None

    def _new_session(self) -> WatchSession:
        """Begin a session: set the version to start from, unless the server should send the state."""
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

    def record(self, stream: Stream, document: Document) -> None:
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
