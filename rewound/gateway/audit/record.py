"""The audit log's Exchange of one request: it collects what the events of the request contain.

A record decides by the policy which stages become events, and passes each to the `AuditLog` as an `Event`. It does no
more than that: `event` formats many of them at a time. A queued record refers only to those parts of the request that
its events contain.

Most requests are short, and at level Metadata. A log backend has a list of pending records, in which the record
itself represents its RequestReceived event, and also its ResponseComplete event if no other event is between the two:
then `attributes` and `complete` need no further calls. Nor does `complete` if there are others in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, Union

from rewound.actors.access.authorize import Attributes, Decision
from rewound.actors.identity import User
from rewound.gateway.audit.documents import MAX_OBJECT, is_document, plain_body
from rewound.gateway.audit.policy import (
    PANIC,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    Level,
    RequestPolicy,
)
from rewound.gateway.exchange import (
    Counter,
    Exchange,
    OptionalAttribute,
    next_audit_number,
    numbered_id,
)
from rewound.gateway.message import Request, Response
from rewound.gateway.pipeline.parameters import parse
from rewound.gateway.pipeline.route import find_route

_UNKNOWN = Attributes(User(""), "")
_METADATA = Level.METADATA
_NOTHING = RequestPolicy(Level.NONE)
_LONG_SUBRESOURCES = frozenset({"attach", "exec", "log", "portforward", "proxy"})
# The event of a successful one contains a part of its response: a generated name, the Status of a delete.
_VERBS_WITH_RESPONSE = frozenset({"create", "delete", "deletecollection"})
# These contain nothing of a successful response, and have no ResponseStarted event.
_SHORT_VERBS = frozenset({"get", "list", "update", "patch"})
# The least size with which a record and its event count against the limit of a queue.
_OVERHEAD = 2048
# At level Metadata an event contains at most the Status or name of a body; up to this size the event loop reads it.
_SMALL = 4096


class ClientFields(NamedTuple):
    """The header fields of a request that an audit log contains."""

    agent: bytes  # empty if there is none
    forwarded_for: bytes | None
    real_ip: bytes | None
    audit_id: bytes | None  # chosen by the client


class Target(NamedTuple):
    path: str
    query: str
    client: ClientFields  # client fields of its headers
    address: str


class Event(NamedTuple):
    record: AuditRecord
    stage: str
    time: int  # nanoseconds since 1970
    status: int  # code, or 0


# What is not formatted yet: an event, or a record that represents its events.
Pending = Union["AuditRecord", Event]


class Recorder(Protocol):
    """The audit log, as its records use it."""

    @property
    def now(self) -> Callable[[], int]:
        """Nanoseconds since 1970."""

    @property
    def for_all(self) -> RequestPolicy | None:
        """The treatment of every request; None if it depends on the request."""

    @property
    def evaluate(self) -> Callable[[Attributes], RequestPolicy]:
        """The treatment of a request by the policy."""

    @property
    def emit(self) -> Callable[[Pending], None]:
        """Take an event, or a record if its treatment has a pending list."""


class AuditRecord(Exchange):
    """The exchange of one request. `receiver` creates it, and sets what is not an `OptionalAttribute`."""

    __slots__ = (
        "_complete",
        "_request",
        "attributes_",
        "completed_at",
        "decided",
        "received_at",
        "target",
        "treatment",
    )
    target: Target
    received_at: int  # nanoseconds since 1970
    completed_at: int  # the same; 0 unless the record represents its ResponseComplete event
    attributes_: Attributes
    decided: Decision | None
    treatment: RequestPolicy
    # Annotations of authentication.
    first_annotations: OptionalAttribute[dict[str, str] | None] = OptionalAttribute(None)
    message = OptionalAttribute("")  # message of the responseStatus, if the response has none
    is_long = OptionalAttribute(False)  # from its last event on, it has bodies that take long to format
    request_body: OptionalAttribute[bytes | None] = OptionalAttribute(None)
    response_body: OptionalAttribute[bytes | None] = OptionalAttribute(None)
    truncated = OptionalAttribute(False)  # a body that the level asks for is left out because it is too large
    _log: ClassVar[Recorder]  # set by the class that `receiver` creates for each log
    _request: Request | None
    _complete: bool  # no event follows
    _started = OptionalAttribute(False)

    def annotate(self, key: str, value: str) -> None:
        super().annotate(key, value)
        if self.attributes_ is _UNKNOWN and self.annotations is not None:
            self.first_annotations = self.annotations.copy()

    # Stages.

    def attributes(self, attributes: Attributes) -> None:
        self.attributes_ = attributes
        treatment = self.treatment
        pending = treatment.pending
        if pending is None:
            self._report_attributes(attributes)
            return
        treatment.requests += 1
        self._request = None  # a body is held no longer than without an audit log
        if 0 < len(pending) < pending.limit:
            pending.append(self)
        else:
            self._log.emit(self)

    def _report_attributes(self, attributes: Attributes) -> None:
        """The same if the policy decides by request, or a record cannot represent its events."""
        treatment = self.treatment = self._log.evaluate(attributes)
        if treatment.pending is not None:
            self.attributes(attributes)
            return
        treatment.requests += 1
        self._request = None
        if treatment.level is not _METADATA:
            self._keep_bodies(treatment.level)
        if not self._complete and treatment.is_received:
            self._log.emit(Event(self, REQUEST_RECEIVED, self.received_at, 0))
        if self._record is not None:
            self._record.attributes(attributes)

    def _keep_bodies(self, level: Level) -> None:
        if not level:
            self._complete = True
            if self.responding is not None:
                self.responding = None  # refers to this record
            return
        self.keeps_request = True
        self.keeps_response = level is Level.REQUEST_RESPONSE

    def start(self, status: int, stream: Counter) -> None:
        self._start_response(status)
        super().start(status, stream)

    def _start_response(self, status: int) -> None:
        if self._complete or self._started or not _is_long(self.attributes_):
            return
        self._started = True
        if RESPONSE_STARTED not in self.treatment.omit_stages:
            self._log.emit(Event(self, RESPONSE_STARTED, self._log.now(), status))

    def panic(self, error: BaseException | None = None) -> None:
        if not (self._complete or self.ended):
            self._complete = True
            # The type alone: the text of an error may quote what the client sent.
            self.message = (
                f"APIServer panic'd: {type(error).__name__ if error is not None else 'internal error'}"
            )
            self._take_request()
            if PANIC not in self.treatment.omit_stages:
                self._log.emit(Event(self, PANIC, self._log.now(), 500))
        super().panic(error)

    def complete(self) -> None:
        pending = self.treatment.ends
        if pending and self.status < 400:
            attributes = self.attributes_
            verb = attributes.verb
            # The usual case. The event of a create contains a part of the response only if the server chose the name.
            if (
                verb in _SHORT_VERBS
                or (
                    verb == "create"
                    and (attributes.name or ((written := self.written) is not None and written.name))
                )
            ) and attributes.subresource not in _LONG_SUBRESOURCES:
                if pending[-1] is self:
                    self.completed_at = pending.now()
                    self.ended = True
                    self.response = None
                    return
                if len(pending) < pending.limit and not self.ended and not self._complete:
                    pending.append(Event(self, RESPONSE_COMPLETE, pending.now(), self.status))
                    self.ended = self._complete = True
                    self.response = None
                    return
        self._report_end()

    def _report_end(self) -> None:
        if self.ended:
            return
        self.ended = True
        if not self._complete:
            self._finish(self.status)
        if self._record is not None:
            super().complete()

    def cut_off(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self.responding is not None:
            self.responding = None  # refers to this record
        if not self._complete:
            self._finish(self.status)
        super().cut_off()

    def _finish(self, status: int) -> None:
        """Emit the last event."""
        if self.attributes_ is _UNKNOWN:
            self._refuse(status)
            return
        treatment = self.treatment
        if status >= 400 or treatment.level is not _METADATA or self.attributes_.verb in _VERBS_WITH_RESPONSE:
            self._take_request()
            self._take_response(status)
        self.response = None
        self._start_response(status)  # even for a failed one
        self._complete = True
        if RESPONSE_COMPLETE not in treatment.omit_stages:
            self._log.emit(Event(self, RESPONSE_COMPLETE, self._log.now(), status))

    def report_response(self, response: Response) -> None:
        """In a blocking mode, report before the response is sent what is otherwise reported after it."""
        self.responding = None  # refers to this record
        if self._complete:
            return
        if response.stream is not None:
            self._start_response(response.status)
            return
        self.response = response
        self._finish(response.status)

    def abandon(self) -> None:
        """Emit no more events, because the request is refused: its first event could not be stored."""
        self._complete = True
        self.responding = None  # refers to this record

    def _refuse(self, status: int) -> None:
        """Emit the only event of a request that got no further than authentication; its user is unknown."""
        request, self._request = self._request, None
        self._complete = True
        if request is None or not status:
            return  # the client disconnected before the request was handled
        self.attributes_ = unauthenticated(request)
        self.treatment = self._log.evaluate(self.attributes_)
        self.treatment.requests += 1
        if not self.treatment.level or RESPONSE_STARTED in self.treatment.omit_stages:
            return
        self._take_response(status)
        if status == 401 and self.response_body is None:
            self.message = attempted_methods(request)
        self.response = None
        self._log.emit(Event(self, RESPONSE_STARTED, self._log.now(), status))

    # Bodies, if the level asks for them.

    def _take_request(self) -> None:
        if self.request_json is not None:
            self.request_body = self._short_enough(self.request_json)
            self.request_json = None

    def _take_response(self, status: int) -> None:
        response, converted = self.response, self.response_json
        if response is None:
            return
        self.response = self.response_json = None
        if self.not_negotiated or (status < 400 and not _is_api_object(self.attributes_)):
            return
        if self.treatment.level is Level.REQUEST_RESPONSE:
            if response.parts is not None:
                self.truncated = True
                return
        elif status < 400 and not self._needs_response(response):
            return
        body = converted or plain_body(response)
        if body is None and response.body and is_document(response):
            self.truncated = True
        self.response_body = self._short_enough(body)

    def _short_enough(self, body: bytes | None) -> bytes | None:
        if body is not None and len(body) > MAX_OBJECT:
            self.truncated = True
            return None
        if body is not None and (len(body) > _SMALL or self.treatment.level is not _METADATA):
            self.is_long = True
        return body

    def _needs_response(self, response: Response) -> bool:
        """Whether the event contains a part of a successful response: the Status of a delete, or a generated name."""
        attributes, written = self.attributes_, self.written
        if attributes.verb == "create":
            return not attributes.name and (written is None or not written.name)
        return attributes.verb in ("delete", "deletecollection") and len(response.body) < _OVERHEAD

    @property
    def audit_id(self) -> bytes:
        return numbered_id(self.audit_number) if self.audit_number else self.target.client.audit_id or b""

    @property
    def path(self) -> str:
        return self.target.path

    @property
    def query(self) -> str:
        return self.target.query

    @property
    def client(self) -> ClientFields:
        return self.target.client

    @property
    def address(self) -> str:
        return self.target.address

    @property
    def weight(self) -> int:
        """About how many bytes the record holds."""
        weight = _OVERHEAD + len(self.path) + len(self.query) + len(self.client.agent) + len(self.audit_id)
        if self.request_body is not None:
            weight += len(self.request_body)
        if self.response_body is not None:
            weight += len(self.response_body)
        return weight


_DECIDED: Any = AuditRecord.__dict__["decided"]  # the slot that SharedRecord overrides


class SharedRecord(AuditRecord):
    """A record to which another observer attaches its own."""

    __slots__ = ()

    @property
    def decided(self) -> Decision | None:
        found: Decision | None = _DECIDED.__get__(self, AuditRecord)
        return found

    @decided.setter
    def decided(self, decision: Decision | None) -> None:
        _DECIDED.__set__(self, decision)
        if self._record is not None and decision is not None:
            self._record.decision(decision)


def receiver(log: Recorder, base: type[AuditRecord]) -> Callable[[Request], AuditRecord]:
    """The function that connections call for every request: creates its record and stores it in the request."""
    made: type[AuditRecord] = type(base.__name__, (base,), {"__slots__": (), "_log": log})

    def received(
        request: Request,
        # Defaults are faster to read than globals.
        record_of: type[AuditRecord] = made,
        now: Callable[[], int] = log.now,
        number: Callable[[], int] = next_audit_number,
        treatment: RequestPolicy = log.for_all or _NOTHING,
        unknown: Attributes = _UNKNOWN,
    ) -> AuditRecord:
        client: ClientFields = request.facts.audit or _read_client(request)
        record = request.exchange = record_of()
        record.received_at = now()
        record.audit_number = 0 if client.audit_id else number()
        record.target = Target(request.path, request.query, client, request.peer.address)
        record.ended = record._complete = False
        record.status = record.completed_at = 0
        record.optional = record.response = record.stored = record.decided = None
        record.annotations = record.written = None
        record.attributes_ = unknown
        record.treatment = treatment
        record._request = request
        return record

    return received


def _read_client(request: Request) -> ClientFields:
    """The client fields of a request; requests that repeat a header block share them."""
    get = request.headers.get
    agent = get(b"user-agent", b"")
    found = ClientFields(agent, get(b"x-forwarded-for"), get(b"x-real-ip"), get(b"audit-id"))
    request.facts.audit = found
    return found


def _is_api_object(attributes: Attributes) -> bool:
    """Whether a successful response is an API object, of a resource or of discovery."""
    if attributes.is_resource:
        return True
    first, *rest = attributes.path.strip("/").split("/")
    return (first == "api" and len(rest) < 2) or (first == "apis" and len(rest) < 3)


def _is_long(attributes: Attributes) -> bool:
    """Whether the response continues after it has started: only then does its start have an event."""
    return attributes.verb == "watch" or attributes.subresource in _LONG_SUBRESOURCES


def attempted_methods(request: Request) -> str:
    """The message of the event of a 401."""
    attempted = []
    scheme, _, credentials = request.headers.get(b"authorization", b"").strip().partition(b" ")
    if credentials and scheme.lower() in (b"basic", b"bearer"):
        attempted.append(scheme.lower().decode())
    if any(pair.startswith("access_token=") and len(pair) > 13 for pair in request.query.split("&")):
        attempted.append("access_token")
    if request.peer.certificate is not None:
        attempted.append("x509")
    if not attempted:
        return "Authentication failed, no credentials provided"
    return f"Authentication failed, attempted: {', '.join(attempted)}"


def unauthenticated(request: Request) -> Attributes:
    """Verb and object, without a user."""
    try:
        watch = bool(request.query) and parse(request.query).watch
    except Exception:  # its query may be why the server refused it
        watch = False
    route = find_route(request.method, request.path, watch=watch)
    return Attributes(
        User(""),
        route.verb,
        route.group,
        route.version,
        route.resource,
        route.subresource,
        route.namespace,
        route.name,
        route.path,
        route.is_resource,
    )
