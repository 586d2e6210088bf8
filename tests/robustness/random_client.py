"""A client that sends random requests over one connection, chosen by its seed and by the responses so far.

It ends when the server is gone or when it has sent `REQUESTS` requests.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.robustness.client import Client, ConnectionBroken, ServerGone
from tests.robustness.client_cache import ClientCache
from tests.robustness.history import (
    CREATE,
    DELETE,
    DELETE_COLLECTION,
    GET,
    REPLACE,
    Operation,
    PagedList,
    ServerRun,
)
from tests.robustness.objects import (
    COLORS,
    FINALIZERS,
    KEYS,
    KINDS,
    NAMESPACES,
    Content,
    Key,
    content_of,
    make_token,
    version_of,
)
from tests.robustness.requests import fetch_page, http_request, send
from tests.robustness.signal_schedule import SignalSchedule

REQUESTS = 1500  # in one run: some seconds, if the server does not end before
MAX_BROKEN = 20  # connections broken in a row: the server is shutting down
LARGE = 60_000  # bytes of padding that need overflow pages
RECENT = 50  # versions that lists request more often than older ones

Step = Callable[[], None]


class RandomClient:
    def __init__(
        self,
        number: int,
        client: Client,
        run: ServerRun,
        cache: ClientCache,
        rng: random.Random,
        schedule: SignalSchedule,
    ) -> None:
        self._number = number
        self._client = client
        self._run = run
        self._cache = cache
        self._rng = rng
        self._schedule = schedule
        self._left = REQUESTS
        self._broken = 0  # in a row
        self.server_gone = False
        self.failure: BaseException | None = None
        self._steps: dict[Step, int] = {
            self._create: 24,
            self._replace: 28,
            self._write_same: 4,
            self._delete: 12,
            self._delete_collection: 2,
            self._get: 10,
            self._list: 5,
            self._page: 6,
            self._list_exact: 5,
            self._disconnect: 2,
            self._send_partially: 2,
        }

    def run(self) -> None:
        try:
            while self._left > 0 and not self.server_gone:
                (step,) = self._rng.choices(list(self._steps), list(self._steps.values()))
                self._do(step)
        except ServerGone:
            self.server_gone = True
        except BaseException as error:  # raised by the thread that joins this one
            self.failure = error
        finally:
            self._client.close()

    def _do(self, step: Step) -> None:
        try:
            step()
            self._broken = 0
        except ConnectionBroken:
            self._broken += 1
            self.server_gone = self._broken >= MAX_BROKEN

    # One object.

    def _create(self) -> None:
        self._perform(self._operation(CREATE, self._any_key(), write=True))

    def _replace(self) -> None:
        known = list(self._cache.known) or KEYS
        self._perform(self._operation(REPLACE, self._rng.choice(known), write=True, conditional=0.6))

    def _write_same(self) -> None:
        """Write the content that the object is known to have: this must not make a version."""
        operation = self._operation(REPLACE, self._any_key(), write=True, conditional=0.5)
        known = self._cache.known.get(operation.key)
        if known is not None:
            operation.content = content_of(operation.key.plural, known)
        self._perform(operation)

    def _delete(self) -> None:
        self._perform(self._operation(DELETE, self._any_key(), conditional=0.3))

    def _delete_collection(self) -> None:
        plural = self._rng.choice(list(KINDS))
        namespace = self._rng.choice(NAMESPACES) if KINDS[plural].namespaced else ""
        operation = self._operation(DELETE_COLLECTION, Key(plural, namespace, ""))
        operation.color = self._rng.choice(COLORS)
        self._perform(operation)

    def _get(self) -> None:
        self._perform(self._operation(GET, self._any_key()))

    def _disconnect(self) -> None:
        """Send a write and disconnect before its response."""
        operation = self._random_write()
        operation.abandoned = True
        with self._sending(operation):
            self._client.send_and_disconnect(*http_request(operation))

    def _send_partially(self) -> None:
        """Send a part of a write. It must never take effect."""
        operation = self._random_write()
        operation.complete = False
        with self._sending(operation):
            method, path, body = http_request(operation)
            self._client.send_partially(method, path, body or {}, self._rng)

    def _random_write(self) -> Operation:
        verb = self._rng.choice((CREATE, REPLACE, DELETE))
        return self._operation(verb, self._any_key(), write=verb != DELETE)

    def _any_key(self) -> Key:
        return self._rng.choice(KEYS)

    def _operation(self, verb: str, key: Key, *, write: bool = False, conditional: float = 0.0) -> Operation:
        number = next(self._cache.numbers)
        known = self._cache.known.get(key) if self._rng.random() < conditional else None
        return Operation(
            number,
            self._number,
            verb,
            key,
            content=self._content(number) if write else None,
            expected=None if known is None else version_of(known),
        )

    def _content(self, number: int) -> Content:
        rng = self._rng
        padding = rng.randrange(LARGE) if rng.random() < 0.02 else rng.randrange(1500)
        finalizers = rng.choice(((), (), (), FINALIZERS[:1], FINALIZERS))
        return Content(make_token(number, padding), rng.choice(COLORS), finalizers)

    def _perform(self, operation: Operation) -> None:
        with self._sending(operation):
            send(self._client, operation, self._schedule.checkpoint)
        self._schedule.checkpoint()
        self._cache.learn(operation)

    def _sending(self, operation: Operation) -> _Sending:
        self._left -= 1
        return _Sending(self._run, operation)

    # Collections.

    def _list(self) -> None:
        paged = self._paged_list()
        versions = self._cache.versions[-RECENT:]
        if versions and self._rng.random() < 0.3:
            paged.version, paged.match = self._rng.choice(versions), "NotOlderThan"
        self._read_pages(paged)

    def _page(self) -> None:
        """Read a list in pages: a new one, or one whose first pages came from a server that was killed."""
        try:
            paged = self._cache.unfinished.pop()
        except IndexError:
            paged = self._paged_list(limit=self._rng.randrange(1, 5))
        self._read_pages(paged)

    def _list_exact(self) -> None:
        versions = self._cache.versions
        if not versions:
            return
        paged = self._paged_list(limit=self._rng.choice((0, 0, 3)))
        paged.version = self._rng.choice(versions[-RECENT:] if self._rng.random() < 0.7 else versions)
        paged.match = "Exact"
        self._read_pages(paged)

    def _paged_list(self, limit: int = 0) -> PagedList:
        plural = self._rng.choice(list(KINDS))
        namespace = self._rng.choice((None, *NAMESPACES)) if KINDS[plural].namespaced else None
        return PagedList(plural, namespace, self._rng.choice(("", "", *COLORS)), limit)

    def _read_pages(self, paged: PagedList) -> None:
        if not paged.pages:
            self._run.lists.append(paged)
        try:
            while not paged.finished:
                self._left -= 1
                fetch_page(self._client, paged, self._schedule.checkpoint)
                self._schedule.checkpoint()
                self._cache.learn_page(paged)
        except (ConnectionBroken, ServerGone):
            self._cache.keep_unfinished(paged)
            raise


class _Sending:
    """Records an operation as sent; one that found no server to connect to is not complete."""

    def __init__(self, run: ServerRun, operation: Operation) -> None:
        self._operation = operation
        operation.sent = time.monotonic()
        run.operations.append(operation)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is ServerGone:
            self._operation.complete = False
