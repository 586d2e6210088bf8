"""`Exchange`: an observed request, from its arrival to the end of its response. Reports each stage once to observers.

Each request has an `Exchange`, stored in the `Request`, if the server has an observer. Without one a request costs
one comparison with None. The connection reports the response; the pipeline reports user, attributes and decision. The
audit log has its own subclass of `Exchange`, which saves calls for each request.

    received    attributes    decision    response_started    [panic]    response_complete

Other facts for observers are plain attributes of the `Exchange`: handlers set them, and the observer reads them when it
needs them.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from rewound.actors.access.authorize import Attributes, Decision
from rewound.actors.identity import User
from rewound.gateway.message import Request, Response

# Audit-Ids: the first four groups of a random UUID, and a counter as the fifth. A random UUID for each request would
# cost as much as the rest of the head of its response.
AUDIT_BASE: Final = str(uuid.uuid4())[:24].encode()
_count = itertools.count(1)
next_audit_number: Final[Callable[[], int]] = _count.__next__
next_audit_id: Final[Callable[[], bytes]] = map((AUDIT_BASE + b"%012x").__mod__, _count).__next__


def numbered_id(number: int) -> bytes:
    return b"%b%012x" % (AUDIT_BASE, number)


class SentNames(NamedTuple):
    """Names in the object of a request body, as the client sent them; values of any type."""

    namespace: Any
    name: Any
    uid: Any
    resource_version: Any


class RequestRecord(Protocol):
    """The observer's record of one request. No method may raise or take long: the request waits for it."""

    @property
    def audit_id(self) -> bytes:
        """The Audit-Id of the response."""

    def attributes(self, attributes: Attributes) -> None:
        """Called after authentication with user, verb and resource; not for requests that were refused before."""

    def decision(self, decision: Decision) -> None:
        """Called when the authorizers have decided."""

    def response_started(self, status: int) -> None:
        """Called when the head of a stream, such as a watch, was sent."""

    def panic(self, error: BaseException | None) -> None:
        """Called when an internal error ended the request; `error` is None if it ended other requests, too."""

    def response_complete(self, status: int, sent: int, *, cut_off: bool) -> None:
        """Called at the end, always and last.

        `status` is 0 if there was no response, because the client disconnected before the request was complete.
        `sent` is the size of the response body as HTTP defines it: after compression, without heads, TLS, chunk
        framing and HTTP/2 frames; for a WebSocket, the payload of its messages. A body of known size counts once the
        connection accepted all of it; for a stream, what the connection accepted counts. `cut_off`: request or response
        are incomplete, because the client disconnected or did not read, or the server's grace period was over.
        """


class Counter(Protocol):
    @property
    def payload(self) -> int:
        """Bytes of a stream's body that the connection accepted so far."""


T = TypeVar("T")


class OptionalAttribute(Generic[T]):
    """An attribute that few exchanges set; others need neither time nor memory for it."""

    def __init__(self, default: T) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, exchange: Exchange, owner: type) -> T:
        if exchange.optional is None:
            return self._default
        found: T = exchange.optional.get(self._name, self._default)
        return found

    def __set__(self, exchange: Exchange, value: T) -> None:
        if exchange.optional is None:
            exchange.optional = {}
        exchange.optional[self._name] = value


class Exchange:
    """Attributes that every request sets are slots; the others are `OptionalAttribute`."""

    __slots__ = (
        "annotations",
        "audit_number",
        "ended",
        "optional",
        "response",
        "size",
        "status",
        "stored",
        "written",
    )
    optional: dict[str, Any] | None  # values of `OptionalAttribute`s
    audit_number: int  # the counter in the Audit-Id; 0 if the observer gave another Audit-Id
    status: int  # of the response; 0 until it is about to be sent
    size: int  # of the body of a response without a stream; no value until then
    ended: bool  # complete or cut off
    response: Response | None  # without a stream
    # Set if the request has to wait until an audit log has stored what was reported so far. AuditNotStored.
    stored: Callable[[], Awaitable[None]] | None
    # For audit events, besides user, attributes and decision.
    annotations: dict[str, str] | None
    written: SentNames | None  # of the object in the request body, once it is decoded
    _given_id = OptionalAttribute(b"")
    _record: OptionalAttribute[RequestRecord | None] = OptionalAttribute(None)
    _stream: OptionalAttribute[Counter | None] = OptionalAttribute(None)
    _panicked = OptionalAttribute(False)
    # Set if the observer needs bodies. Handlers then keep the JSON of the decoded object or patch, and that of
    # responses in another format.
    keeps_request = OptionalAttribute(False)
    keeps_response = OptionalAttribute(False)
    request_json: OptionalAttribute[bytes | None] = OptionalAttribute(None)
    response_json: OptionalAttribute[bytes | None] = OptionalAttribute(None)
    not_negotiated = OptionalAttribute(
        False
    )  # the response is an error, in a format that the client does not accept
    # Set if an audit log wants the response before it is sent.
    responding: OptionalAttribute[Callable[[Response], None] | None] = OptionalAttribute(None)
    impersonated: OptionalAttribute[User | None] = OptionalAttribute(None)  # the impersonated user
    impersonation_constraint = OptionalAttribute("")  # the verb of the narrower right that allowed it

    def begin(self) -> None:
        """Initialize the slots. The audit log does so itself, which saves the call."""
        self.optional = self.response = self.stored = self.annotations = self.written = None
        self.audit_number = self.status = self.size = 0
        self.ended = False

    @property
    def audit_id(self) -> bytes:
        return numbered_id(self.audit_number) if self.audit_number else self._given_id

    def report_to(self, record: RequestRecord) -> None:
        """Report every stage to this record; its Audit-Id is used unless there is one already."""
        self._record = record
        self._given_id = self.audit_id or record.audit_id

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation to the audit events of this request; the first value of a key stays."""
        if self.annotations is None:
            self.annotations = {}
        self.annotations.setdefault(key, value)

    def attributes(self, attributes: Attributes) -> None:
        if self._record is not None:
            self._record.attributes(attributes)

    @property
    def decided(self) -> Decision | None:
        """Set once the authorizers have decided."""
        return None

    @decided.setter
    def decided(self, decision: Decision | None) -> None:
        if self._record is not None and decision is not None:
            self._record.decision(decision)

    def respond(self, status: int, size: int) -> None:
        """A response with a body of this size is about to be sent."""
        self.status, self.size = status, size

    def start(self, status: int, stream: Counter) -> None:
        """The head of a stream has been sent; `stream` counts what follows."""
        self.status, self._stream = status, stream
        self.response = None  # not needed during the stream
        if self._record is not None:
            self._record.response_started(status)

    def panic(self, error: BaseException | None = None) -> None:
        if self._record is not None and not self._panicked:
            self._panicked = True
            self._record.panic(error)

    def complete(self) -> None:
        self._end(self.size if self._stream is None else self._stream.payload, cut_off=False)

    def cut_off(self) -> None:
        """No effect on an exchange that is complete."""
        self._end(0 if self._stream is None else self._stream.payload, cut_off=True)

    def _end(self, sent: int, *, cut_off: bool) -> None:
        self.ended = True
        record, self._record = self._record, None
        if record is not None:
            record.response_complete(self.status, sent, cut_off=cut_off)


# Creates the Exchange of a request, and stores it in the request.
Observe = Callable[[Request], Exchange]


class RequestObserver(Protocol):
    def received(self, request: Request) -> RequestRecord | Exchange:
        """Called for each request with a valid head, also if its body was refused or never arrived.

        Must not raise or take long. An observer may return its own subclass of Exchange instead of a record, which
        saves calls.
        """


class ExchangeObserver:
    """An observer with its own subclass of Exchange, which it stores in the request itself."""

    received: Observe

    def share(self) -> None:
        """Called when another observer will have records in these exchanges."""


class AuditNotStored(Exception):
    """An audit log in mode blocking-strict could not store the event of a request, which is therefore refused."""


def observing(observer: RequestObserver | None) -> Observe | None:
    """The function that connections call for each request; None without an observer."""
    if observer is None:
        return None
    return observer.received if isinstance(observer, ExchangeObserver) else partial(observe, observer)


def observe(observer: RequestObserver, request: Request) -> Exchange:
    received = observer.received(request)
    if isinstance(received, Exchange):
        request.exchange = received
        return received
    exchange = request.exchange = Exchange()
    exchange.begin()
    exchange.report_to(received)
    return exchange


class BothObservers(ExchangeObserver):
    """Combines two observers: the audit log, and that of a program that embeds the server.

    The second one has a record in the first one's Exchange, which has the Audit-Id.
    """

    def __init__(self, first: ExchangeObserver, second: RequestObserver) -> None:
        first.share()
        self._first = first
        self._second = second
        self.received = self._received

    def _received(self, request: Request) -> Exchange:
        exchange = self._first.received(request)
        record = self._second.received(request)
        assert not isinstance(record, Exchange)
        exchange.report_to(record)
        return exchange


def both(first: ExchangeObserver | None, second: RequestObserver | None) -> RequestObserver | None:
    """One observer for both; None if there is neither."""
    if first is None or second is None:
        return first or second
    return BothObservers(first, second)
