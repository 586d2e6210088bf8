"""Requests of an audit log: `audit.k8s.io/v1` or `audit.cluster.io/v1`, one Event or EventList in a line, any level.

    line -> requests_in -> Request: user, source, verb, object, body, and response

A log is untrusted input of any size: lines are bounded, and a line that is not an event is counted and left out. Only
the last stage of a request counts (ResponseComplete, or Panic); its other stages add nothing. Requests that change
nothing (reads, dry runs, reviews) are left out, unless they were refused or the caller wants all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qs

import orjson

from rewound.actors.runtime.steps import exhausted
from rewound.recording.record.json_parts import (
    Malformed,
    Part,
    loaded,
    part_of,
    parts_in,
    readable_members,
    why_unreadable,
)

Document = dict[str, Any]

LONGEST_LINE: Final = (
    64 << 20
)  # bytes; an event has two objects at most, and a server bounds each at a few MB
GROUPS: Final = {"audit.k8s.io/v1": "kubernetes", "audit.cluster.io/v1": "cluster"}  # the dialect of each
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_LAST_STAGES: Final = frozenset({"ResponseComplete", "Panic"})
_NOT_FOUND: Final = (404, 410)  # for reads, these are not refusals: a client looks whether something exists
_LONGEST_NAME: Final = 256  # letters of a user or a manager; a longer one is cut
_LONGEST_AGENT: Final = 100
_LONGEST_MESSAGE: Final = 1000
_MOST_ADDRESSES: Final = 3
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(slots=True, eq=False)
class Request:
    audit_id: str
    verb: str
    user: str  # after impersonation
    agent: str  # the client's User-Agent
    addresses: tuple[str, ...]
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    uid: str  # of the object, where the log has it
    sent_version: str  # the resourceVersion that the client sent: the precondition of an update
    code: int
    reason: str  # reason of an error status
    message: str
    received: int  # microseconds since 1970, as `time`
    time: int  # when the response was complete
    query: dict[str, list[str]] = field(default_factory=dict)
    sent: Any = None  # None below level Request
    returned: Any = None  # None below level RequestResponse
    status: Document = field(default_factory=dict)  # responseStatus, which every level has
    is_apply: bool = False  # server-side apply, which is a patch on the wire
    size: int = 0  # bytes of its part of the line

    @property
    def refused(self) -> bool:
        return self.code >= 400

    @property
    def deletes(self) -> bool:
        return self.verb in ("delete", "deletecollection")

    @property
    def creates(self) -> bool:
        """Whether it created an object."""
        if self.verb == "create":
            return not self.subresource
        return self.verb == "patch" and self.code == 201

    @property
    def manager(self) -> str:
        """The field manager, as a server finds it: the query parameter, or the user agent up to its first slash."""
        named = self.query.get("fieldManager", [""])[0] or self.agent.partition("/")[0]
        return "".join(one for one in named if one.isprintable())[:128]

    @property
    def source(self) -> str:
        """User agent and addresses, as text."""
        where = ", ".join(self.addresses)
        return f"{self.agent} from {where}" if self.agent and where else self.agent or where

    def without_content(self) -> Request:
        """The same with only the parts of both objects that show who made a change: names, uids, versions, ends."""
        returned = self.returned
        if isinstance(returned, dict):
            items = returned.get("items")
            returned = _identity(returned)
            if self.verb == "deletecollection" and isinstance(items, list):
                returned["items"] = [_identity(one) for one in items if isinstance(one, dict)]
        self.returned, self.sent = returned, None if self.sent is None else {}
        self.size = 0
        return self

    @property
    def journal_verb(self) -> str:
        """The verb in this server's own journal."""
        return "apply" if self.is_apply else self.verb

    @property
    def returned_version(self) -> str:
        """The resourceVersion of the object that was returned; empty without one."""
        metadata = self.returned.get("metadata") if isinstance(self.returned, dict) else None
        return _text(metadata.get("resourceVersion")) if isinstance(metadata, dict) else ""


class Unreadable(ValueError):
    """A line is not an audit event, or has `events` that are not; the text says why the first is not."""

    def __init__(self, why: str, events: int = 1) -> None:
        super().__init__(why)
        self.events = events


class UnreadableEvents(Unreadable):
    """Some of the events are malformed; the others were yielded."""


def requests_in(line: bytes, *, reads: bool = False) -> Iterator[Request]:
    """Yield the requests of a line: none, one, or those of a batch. Then raises Unreadable if others were malformed.

    `reads`: also those that change nothing.
    """
    if not line:
        raise Unreadable(f"it has more than {LONGEST_LINE >> 20} MiB")
    wrong: list[ValueError] = []
    try:
        events = _events(orjson.loads(line))
    except orjson.JSONDecodeError as error:
        events = _events(_readable(line, error, wrong))
    for event in events:
        try:
            found = _request(event, reads=reads)
        except ValueError as error:
            wrong.append(error)
            continue
        if found is not None:
            found.size = len(line) // len(events)
            yield found
    if wrong:
        raise UnreadableEvents(f"it is not an audit event: {wrong[0]!s:.200}", len(wrong))


# What clients sent and got: the only members that may nest, or have a number of any length.
_CONTENTS: Final = frozenset({"requestObject", "responseObject"})


def _readable(line: bytes, error: orjson.JSONDecodeError, wrong: list[ValueError]) -> Any:
    """A line that no parser takes as a whole: its events that can be read, without their contents if need be.

    One client's object must not hide the requests of all others in a batch, nor its own author. `wrong` gets the
    errors of the other events. Raises Unreadable.
    """
    try:
        parts = exhausted(parts_in(line.strip()))
    except Malformed:
        raise Unreadable(f"it is no JSON ({error})") from None
    line = line.strip()
    items = part_of(line, parts, b"items")
    if items is None or line[items.start : items.start + 1] != b"[":
        return _readable_event(line, parts)
    found, _ = readable_members(line, [one for one in parts if one is not items])
    found["items"] = events = list[Any]()
    for item in exhausted(parts_in(line, items.start)):
        try:
            events.append(loaded(line, item))
        except orjson.JSONDecodeError as failure:
            try:
                events.append(_readable_event(line, exhausted(parts_in(line, item.start))))
            except Malformed:
                wrong.append(Unreadable(why_unreadable(failure)))
            except Unreadable as failure_of_event:
                wrong.append(failure_of_event)
    return found


def _readable_event(line: bytes, parts: list[Part]) -> Document:
    """An event without contents that cannot be read. Raises Unreadable if something else cannot be read."""
    found, others = readable_members(line, parts)
    if unread := [one for one in others if one not in _CONTENTS]:
        raise Unreadable(f"{unread[0][:100]!r} cannot be read")
    return found


def dialect_in(line: bytes) -> str:
    """The dialect of the server that wrote a line; empty if the line is not an audit event of version v1."""
    try:
        given = orjson.loads(line)
        return GROUPS.get(given.get("apiVersion"), "")
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        return ""


def first_time(line: bytes) -> int:
    """The time of the first event of a line, in microseconds since 1970; 0 without one."""
    try:
        event = _events(orjson.loads(line))[0]
        return micros(event.get("stageTimestamp") or event.get("requestReceivedTimestamp"))
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError):
        return 0


def _events(given: Any) -> list[Document]:
    if not isinstance(given, dict):
        raise Unreadable("it is not an object")
    api_version = given.get("apiVersion")
    if not isinstance(api_version, str) or api_version not in GROUPS:
        found = f"{api_version!r}"[:80]
        raise Unreadable(f"its apiVersion is {found}, not {' or '.join(GROUPS)}")
    if given.get("kind") != "EventList":
        return [given]
    items = given.get("items") or []
    if not isinstance(items, list):
        raise Unreadable("its items are not a list of events")
    return items


def _request(event: Any, *, reads: bool) -> Request | None:
    """Parse an event; None if its stage or request does not count. Raises ValueError that names a malformed field."""
    if not isinstance(event, dict):
        raise ValueError("it is not an object")
    status, stage = _part(event, "responseStatus"), event.get("stage")
    if not isinstance(stage, str):
        raise ValueError("stage is missing" if stage is None else "stage is no text")
    # The last event of a request that fails authentication is the start of its response.
    unknown = stage == "ResponseStarted" and status.get("code", 0) == 401
    if stage not in _LAST_STAGES and not unknown:
        return None
    code, verb = status.get("code", 0), _text(event.get("verb"))
    if type(code) is not int or not 0 <= code <= 999:
        raise ValueError("responseStatus.code is not an HTTP status code")
    refused = code >= 400 and (verb in _WRITES or code not in _NOT_FOUND)
    path, _, query = _text(event.get("requestURI")).partition("?")
    changes = verb in _WRITES and 0 < code < 400 and "dryRun=" not in query
    if not (refused or changes or reads):
        return None
    user = _part(event, "impersonatedUser") or _part(event, "user")
    what = _part(event, "objectRef")
    if not what and not refused:
        return None
    details, addresses = _part(status, "details"), event.get("sourceIPs") or []
    if not isinstance(addresses, list):
        raise ValueError("sourceIPs is not a list")
    parameters, sent = parse_qs(query, max_num_fields=100) if query else {}, event.get("requestObject")
    return Request(
        audit_id=_text(event.get("auditID")),
        verb=verb,
        user=_text(user.get("username"))[:_LONGEST_NAME],
        agent=_text(event.get("userAgent"))[:_LONGEST_AGENT],
        addresses=tuple(_text(one) for one in addresses[:_MOST_ADDRESSES]),
        group=_text(what.get("apiGroup")),
        version=_text(what.get("apiVersion")),
        resource=_text(what.get("resource")) or ("" if what else path[:_LONGEST_NAME]),
        subresource=_text(what.get("subresource")),
        namespace=_text(what.get("namespace")),
        name=_text(what.get("name")),
        uid=_text(what.get("uid")) or _text(details.get("uid")),
        sent_version=_text(what.get("resourceVersion")),
        code=code,
        reason=_text(status.get("reason")),
        message=_text(status.get("message"))[:_LONGEST_MESSAGE],
        received=_time(event, "requestReceivedTimestamp"),
        time=_time(event, "stageTimestamp" if event.get("stageTimestamp") else "requestReceivedTimestamp"),
        query=parameters,
        sent=sent,
        returned=event.get("responseObject"),
        status=status,
        is_apply=verb == "patch" and "fieldManager" in parameters and _is_configuration(sent),
    )


def _part(event: Document, name: str) -> Document:
    found = event.get(name) or {}
    if not isinstance(found, dict):
        raise ValueError(f"{name} is not an object")
    return found


def _time(event: Document, name: str) -> int:
    try:
        return micros(event.get(name))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name}: {str(event.get(name))[:40]!r} is no time from 1970 to {_LATEST.year}"
        ) from None


_IDENTITY: Final = frozenset(
    {
        "name",
        "uid",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "finalizers",
    }
)


def _identity(document: Document) -> Document:
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        metadata = {key: one for key, one in metadata.items() if key in _IDENTITY and _is_flat(one)}
    elif not _is_flat(metadata):
        metadata = None
    return {"kind": _text(document.get("kind")), "metadata": metadata}


def _is_flat(value: Any) -> bool:
    """Whether a value is none that clients can nest: a scalar, or a list of scalars."""
    return not any(isinstance(one, dict | list) for one in (value if isinstance(value, list) else [value]))


def _is_configuration(sent: Any) -> bool:
    """Whether a patch is server-side apply: its body names a type, and its client a field manager."""
    return isinstance(sent, dict) and all(isinstance(sent.get(one), str) for one in ("kind", "apiVersion"))


def micros(time: Any) -> int:
    """Parse a time. Raises ValueError or TypeError if it is malformed, or so far away that it would spoil the order."""
    found = datetime.fromisoformat(time)
    if not _EPOCH <= found < _LATEST:
        raise ValueError(f"{time:.40} is not between 1970 and {_LATEST.year}")
    return (found - _EPOCH) // _MICROSECOND


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
