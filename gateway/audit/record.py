"""The audit log's Exchange of one request: it collects what the events of the request show.

A record decides by the policy which stages become events, and gives each to the `AuditLog` as a tuple
`(record, stage, time, status)`. It does no more than that: `event` makes JSON of many of them at a time. A record that
is queued refers to no more of the request than its events show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from actors.access.attributes import Attributes
from actors.access.authorize import Decision
from actors.identity import User
from gateway.audit.credentials import attempted_methods
from gateway.audit.documents import MAX_OBJECT
from gateway.audit.policy import (
    PANIC,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    Level,
    Treatment,
)
from gateway.connections.heads import audit_id as next_audit_id
from gateway.requests.exchange import Counter, Exchange, ObservedResponse
from gateway.requests.parameters import parse
from gateway.requests.request import ClientFields, Request
from gateway.requests.route import find_route

_NOBODY = User("")
_UNKNOWN = Attributes(_NOBODY, "")
_METADATA = Level.METADATA
_NOTHING = Treatment(Level.NONE)
_LONG_SUBRESOURCES = frozenset({"attach", "exec", "log", "portforward", "proxy"})
# The event of a successful one shows a part of its response: a generated name, the Status of a delete.
_VERBS_WITH_RESPONSE = frozenset({"create", "delete", "deletecollection"})
# The least that a record and its event are counted with against the bound of a queue.
_OVERHEAD = 2048


# Path, query, what headers say of the client, and its address.
Target = tuple[str, str, ClientFields, str]


class Recorder(Protocol):
    """The audit log, as its records use it."""

    @property
    def now(self) -> Callable[[], int]:
        """Microseconds since 1970."""

    @property
    def evaluate(self) -> Callable[[Attributes], Treatment]:
        """What the policy wants of a request."""

    @property
    def emit(self) -> Callable[[tuple[AuditRecord, str, int, int]], None]:
        """Takes an event."""


class AuditRecord(Exchange):
    __slots__ = (
        "_complete",
        "_log",
        "_request",
        "attributes_",
        "decision_",
        "received_at",
        "shown",
        "target",
        "treatment",
    )
    message = ""  # of the responseStatus, where the response has none
    has_bodies = False  # of request or response; no event shows one before ResponseComplete or Panic
    request_body: bytes | None = None
    response_body: bytes | None = None
    truncated = False  # a body that the level asks for is left out: it is too large
    _started = False

    def __init__(self, log: Recorder, request: Request) -> None:
        client = request.facts.client or request.facts.read_client(request.headers)
        # As Exchange.__init__, without its call.
        self.audit_id = client.audit_id or next_audit_id()
        self.ended = False
        self._status = self._size = 0
        self.response = None
        self._log = log
        self._request: Request | None = request
        self.received_at = log.now()
        self.target: Target = request.path, request.query, client, request.peer.address
        self.attributes_ = _UNKNOWN
        self.decision_: Decision | None = None
        self.treatment = _NOTHING
        self.shown: tuple[str, str, str] | None = None  # JSON that the events of the request have in common
        self._complete = False  # no event follows

    # Stages.

    def attributes(self, attributes: Attributes) -> None:
        self.attributes_ = attributes
        log = self._log
        treatment = self.treatment = log.evaluate(attributes)
        if treatment.level is _METADATA:
            self._request = None  # a body is held no longer than without an audit log
        else:
            self._ask_for_bodies(treatment.level, attributes.verb)
        if not self._complete and REQUEST_RECEIVED not in treatment.omit_stages:
            log.emit((self, REQUEST_RECEIVED, self.received_at, 0))
        if self._record is not None:
            self._record.attributes(attributes)

    def _ask_for_bodies(self, level: Level, verb: str) -> None:
        if not level or verb == "watch":
            self._request = None
        if not level:
            self._complete = True
            if self.responding is not None:
                self.responding = None  # it refers to this record
            return
        self.keeps_request = True
        self.keeps_response = level is Level.REQUEST_RESPONSE

    def decision(self, decision: Decision) -> None:
        self.decision_ = decision
        if self._record is not None:
            self._record.decision(decision)

    def start(self, status: int, stream: Counter) -> None:
        self._start_response(status)
        super().start(status, stream)

    def _start_response(self, status: int) -> None:
        if self._complete or self._started or not _is_long(self.attributes_):
            return
        self._started = True
        if RESPONSE_STARTED not in self.treatment.omit_stages:
            self._log.emit((self, RESPONSE_STARTED, self._log.now(), status))

    def panic(self, error: BaseException | None = None) -> None:
        if not self._complete:
            self._complete = True
            # The type alone: the text of an error may quote what the client sent.
            self.message = (
                f"APIServer panic'd: {type(error).__name__ if error is not None else 'internal error'}"
            )
            self._take_request()
            if PANIC not in self.treatment.omit_stages:
                self._log.emit((self, PANIC, self._log.now(), 500))
        super().panic(error)

    def complete(self) -> None:
        if self.ended:
            return
        self.ended = True
        if not self._complete:
            self._finish(self._status)
        if self._record is not None:
            super().complete()

    def cut_off(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self.responding is not None:
            self.responding = None  # it refers to this record
        if not self._complete:
            self._finish(self._status)
        super().cut_off()

    def _finish(self, status: int) -> None:
        """The last event."""
        if self.attributes_ is _UNKNOWN:
            self._refuse(status)
            return
        self._complete = True
        treatment = self.treatment
        if status >= 400 or treatment.level is not _METADATA or self.attributes_.verb in _VERBS_WITH_RESPONSE:
            self._take_request()
            self._take_response(status)
        self.response = None
        if RESPONSE_COMPLETE not in treatment.omit_stages:
            log = self._log
            log.emit((self, RESPONSE_COMPLETE, log.now(), status))

    def report_response(self, response: ObservedResponse) -> None:
        """A blocking mode: report what is otherwise reported after the response before it is sent."""
        self.responding = None  # it refers to this record
        if self._complete:
            return
        if response.stream is not None:
            self._start_response(response.status)
            return
        self.response = response
        self._finish(response.status)

    def abandon(self) -> None:
        """The request is refused, because its first event could not be stored: it has no others."""
        self._complete = True
        self.responding = None  # it refers to this record

    def _refuse(self, status: int) -> None:
        """A request that got no further than authentication: its user is unknown, and it has one event."""
        request, self._request = self._request, None
        self._complete = True
        if request is None or not status:
            return  # the client disconnected before the request was handled
        self.attributes_ = _unauthenticated(request)
        self.treatment = self._log.evaluate(self.attributes_)
        if not self.treatment.level or RESPONSE_STARTED in self.treatment.omit_stages:
            return
        if status == 401:
            self.message = attempted_methods(request)
        self._take_response(status)
        self._log.emit((self, RESPONSE_STARTED, self._log.now(), status))

    # Bodies, as far as the level asks for them.

    def _take_request(self) -> None:
        request = self._request
        if request is not None:
            self._request = None
            self.request_body = self._short_enough(self.request_json or request.body or None)
            self.request_json = None

    def _take_response(self, status: int) -> None:
        response, converted = self.response, self.response_json
        if response is None:
            return
        self.response = self.response_json = None
        if self.treatment.level is Level.REQUEST_RESPONSE:
            if response.parts is not None:
                self.truncated = True
                return
        elif status < 400 and not self._needs_response(response):
            return
        body = converted or _plain_body(response)
        if body is None and response.body and _is_document(response):
            self.truncated = True
        self.response_body = self._short_enough(body)

    def _short_enough(self, body: bytes | None) -> bytes | None:
        if body is not None and len(body) > MAX_OBJECT:
            self.truncated = True
            return None
        if body is not None:
            self.has_bodies = True
        return body

    def _needs_response(self, response: ObservedResponse) -> bool:
        """Whether the event shows something of a successful response: the Status of a delete, a generated name."""
        attributes, written = self.attributes_, self.written
        if attributes.verb == "create":
            return not attributes.name and (written is None or not written.name)
        return attributes.verb in ("delete", "deletecollection") and len(response.body) < _OVERHEAD

    @property
    def path(self) -> str:
        return self.target[0]

    @property
    def query(self) -> str:
        return self.target[1]

    @property
    def client(self) -> ClientFields:
        return self.target[2]

    @property
    def address(self) -> str:
        return self.target[3]

    @property
    def weight(self) -> int:
        """About how many bytes the record holds."""
        weight = _OVERHEAD + len(self.path) + len(self.query) + len(self.client.agent) + len(self.audit_id)
        if self.request_body is not None:
            weight += len(self.request_body)
        if self.response_body is not None:
            weight += len(self.response_body)
        return weight


def _is_long(attributes: Attributes) -> bool:
    """Whether the response goes on after it has started: only then has its start an event."""
    return attributes.verb == "watch" or attributes.subresource in _LONG_SUBRESOURCES


def _plain_body(response: ObservedResponse) -> bytes | None:
    """The body if it is JSON already."""
    if response.content_type != b"application/json":
        return None
    if any(name == b"content-encoding" for name, _ in response.headers):
        return None
    return response.body or None


def _is_document(response: ObservedResponse) -> bool:
    """Whether it is an object in another format than JSON, and no text such as that of /healthz."""
    return not response.content_type.startswith(b"text/")


def _unauthenticated(request: Request) -> Attributes:
    try:
        watch = bool(request.query) and parse(request.query).boolean("watch")
    except Exception:  # what made the server refuse it may be its query
        watch = False
    route = find_route(request.method, request.path, watch=watch)
    return Attributes(
        _NOBODY,
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
