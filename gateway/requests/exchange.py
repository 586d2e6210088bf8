"""One observed request from its arrival to the end of its response; each stage is reported once.

Each request has an `Exchange`, stored in the `Request`, if the server has an observer. Without one a request costs
one comparison with None. The connection reports the response; the pipeline reports user, attributes and decision. The
audit log has a class of `Exchange` of its own, because every call between the two costs each request time.

    received    attributes    decision    response_started    [panic]    response_complete

What an observer may want to know beyond the stages are plain attributes of the `Exchange`: handlers set them where they
know them, and the observer reads them when it needs them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from actors.access.attributes import Attributes
from actors.access.authorize import Decision
from actors.identity import User
from journal.classes.named_tuple import NamedTuple


class RequestRecord(Protocol):
    """The observer's record of one request. No method may raise or take long: the request waits for it."""

    @property
    def audit_id(self) -> bytes:
        """The Audit-Id of the response."""

    def attributes(self, attributes: Attributes) -> None:
        """Authentication succeeded: user, verb and resource. Not called for a request that was refused before."""

    def decision(self, decision: Decision) -> None:
        """The authorizers decided."""

    def response_started(self, status: int) -> None:
        """The head of a stream, such as a watch, was sent; its body follows."""

    def panic(self, error: BaseException | None) -> None:
        """An internal error ended the request; None if the error concerns more than this request."""

    def response_complete(self, status: int, sent: int, *, cut_off: bool) -> None:
        """The end, always called and always last.

        `status` is 0 if there was no response, because the client disconnected before the request was complete.
        `sent` is the size of the response body as HTTP defines it: after compression, without heads, TLS, chunk
        framing and HTTP/2 frames; for a WebSocket, the payload of its messages. A body of known size counts once the
        connection accepted all of it; of a stream counts what the connection accepted. `cut_off`: request or response
        are incomplete, because the client disconnected or did not read, or the server's grace period was over.
        """


class ObservedResponse(Protocol):
    """A Response, as observers see it."""

    @property
    def status(self) -> int: ...
    @property
    def body(self) -> bytes: ...
    @property
    def content_type(self) -> bytes: ...
    @property
    def headers(self) -> list[tuple[bytes, bytes]]: ...
    @property
    def stream(self) -> object | None: ...
    @property
    def parts(self) -> object | None: ...


class ObjectIdentity(NamedTuple):
    """What the metadata of an object in a request body says of itself; empty where it says nothing."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Counter(Protocol):
    @property
    def payload(self) -> int:
        """Bytes of a stream's body that the connection accepted so far."""


class Exchange:
    """What every request sets is in slots; the rest has its default in the class, which costs nothing to create."""

    __slots__ = ("__dict__", "_size", "_status", "audit_id", "ended", "response")
    _record: RequestRecord | None = None
    _stream: Counter | None = None
    _panicked = False
    # The observer asks for bodies; handlers then keep the JSON of those that are in another format.
    keeps_request = False
    keeps_response = False
    request_json: bytes | None = None
    response_json: bytes | None = None
    # Set if an audit log wants the response before it is sent.
    responding: Callable[[ObservedResponse], None] | None = None
    # Set if the request has to wait until an audit log has stored what was reported so far. AuditNotStored.
    stored: Callable[[], Awaitable[None]] | None = None
    # For an audit log: what its events show beyond user, attributes and decision.
    impersonated: User | None = None  # as whom the request is served, if not as the authenticated user
    annotations: dict[str, str] | None = None
    written: ObjectIdentity | None = None  # of the object in the request body, once it is decoded

    def __init__(self, audit_id: bytes = b"") -> None:
        self.audit_id = audit_id
        self.ended = False  # complete or cut off
        self._status = self._size = 0
        self.response: ObservedResponse | None = None  # without a stream

    def report_to(self, record: RequestRecord) -> None:
        """Report every stage to this record; the response has its Audit-Id, unless there is one already."""
        self._record = record
        self.audit_id = self.audit_id or record.audit_id

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation to the audit events of this request; the first value of a key stays."""
        if self.annotations is None:
            self.annotations = {}
        self.annotations.setdefault(key, value)

    def attributes(self, attributes: Attributes) -> None:
        if self._record is not None:
            self._record.attributes(attributes)

    def decision(self, decision: Decision) -> None:
        if self._record is not None:
            self._record.decision(decision)

    def respond(self, status: int, size: int) -> None:
        """A response with a body of this size is about to be sent."""
        self._status, self._size = status, size

    def start(self, status: int, stream: Counter) -> None:
        """The head of a stream has been sent; `stream` counts what follows."""
        self._status, self._stream = status, stream
        self.response = None  # nothing of it is needed while the stream lasts
        if self._record is not None:
            self._record.response_started(status)

    def panic(self, error: BaseException | None = None) -> None:
        if self._record is not None and not self._panicked:
            self._panicked = True
            self._record.panic(error)

    def complete(self) -> None:
        self._end(self._size if self._stream is None else self._stream.payload, cut_off=False)

    def cut_off(self) -> None:
        """No effect on an exchange that is complete."""
        self._end(0 if self._stream is None else self._stream.payload, cut_off=True)

    def _end(self, sent: int, *, cut_off: bool) -> None:
        self.ended = True
        record, self._record = self._record, None
        if record is not None:
            record.response_complete(self._status, sent, cut_off=cut_off)
