"""Formats audit events from records: one JSON line each, in the field order of Kubernetes.

`EventFormat.lines` formats many events without bodies in the event loop, `EventFormat.line` one with bodies in the
thread that writes. Both concatenate strings instead of building a document, because that takes a third of the time.
In most requests only Audit-Id, times, URI and name are new; the rest is cached in `Texts`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring as quote
from typing import Any, Final, NamedTuple, TypeVar

from rewound.actors.access.authorize import Attributes, Decision, Verdict
from rewound.actors.golang.json import dumps
from rewound.actors.identity import User
from rewound.actors.names import Names
from rewound.gateway.audit.client_json import origin_json, user_json
from rewound.gateway.audit.documents import embedded, name_in, parsed
from rewound.gateway.audit.policy import LEVEL_NAMES, PANIC, REQUEST_RECEIVED, RESPONSE_COMPLETE, Level
from rewound.gateway.audit.record import AuditRecord, ClientFields, Event, Pending, Target
from rewound.gateway.exchange import AUDIT_BASE, SentNames
from rewound.journal.escapes import escaped

_ALLOW: Final = Verdict.ALLOW
_METADATA: Final = Level.METADATA
_DIGITS: Final = [
    f"{number:03d}" for number in range(1000)
]  # formatting six digits takes three times as long
_HEX_DIGITS: Final = [f"{number:02x}" for number in range(256)]  # the end of an Audit-Id
_MILLISECOND: Final = 1_000_000  # nanoseconds
_RECEIVED: Final = '","stage":"RequestReceived","requestURI":'
_COMPLETE: Final = '","stage":"ResponseComplete","requestURI":'
_RECEIVED_TIME: Final = ',"requestReceivedTimestamp":"'
_STAGE_TIME: Final = 'Z","stageTimestamp":"'
_END_OF_FIRST: Final = 'Z"}\n'


class EventFormat:
    """Used by one thread at a time."""

    def __init__(self, names: Names) -> None:
        group = names.group("audit")
        self._starts = {
            level: f'{{"kind":"Event","apiVersion":"{group}/v1","level":"{LEVEL_NAMES[level]}","auditID":'
            for level in Level
        }
        self._start = f'{self._starts[_METADATA]}"{AUDIT_BASE.decode()}'
        self._texts = Texts(names)
        self._second, self._second_text = -1, ""

    def lines(self, pending: Sequence[Pending]) -> bytes:
        """The lines, each with its newline, of events without bodies and of records that represent their events."""
        parts: list[str] = []
        texts = self._texts
        find_request, find_outcome = texts.requests.get, texts.outcomes.get
        # The milliseconds of the last arrival and of the last end: most are the same as those before.
        arrivals, arrival_text, ends, end_text = -_MILLISECOND, "", -_MILLISECOND, ""
        numbers, start = -1, ""
        last, last_status, outcome, end = None, 0, "", ""
        for one in pending:  # one flat loop for ordinary requests, which are most lines
            if isinstance(one, tuple):
                record, stage, ended, status = one
                arrived, number = False, record.audit_number
                if stage is not RESPONSE_COMPLETE or record.treatment.level is not _METADATA:
                    number = 0
            else:
                record, ended, status = one, one.completed_at, one.status
                arrived, number = True, one.audit_number
            decision = record.decided
            if (
                not number
                or record.optional is not None
                or (ended and (record.annotations or decision is None or decision.verdict is not _ALLOW))
            ):
                parts += self._general_lines(one)
                continue
            attributes = record.attributes_
            user = attributes.user
            key = ((user.name, user.uid, user.groups, user.extra), attributes.verb, record.target)
            request, asked, before, after = find_request(key) or texts.add_request(key, record)
            if number >> 8 != numbers:
                numbers = number >> 8
                start = f"{self._start}{numbers:010x}"
            begin = start + _HEX_DIGITS[number & 255]
            since = record.received_at - arrivals
            if not 0 <= since < _MILLISECOND:
                since, arrivals, arrival_text = self._read_millisecond(record.received_at)
            began = arrival_text + _DIGITS[since // 1000]
            if arrived:
                parts += (begin, _RECEIVED, request, _RECEIVED_TIME, began, _STAGE_TIME, began, _END_OF_FIRST)
            if not ended or decision is None:
                continue
            written = record.written
            if written is None or not after:
                parts += (begin, _COMPLETE, request)
            elif written.uid or written.resource_version or (written.namespace and not attributes.namespace):
                parts += (begin, _COMPLETE, asked, *texts.object_of(attributes, written))
            elif attributes.name or not (name := written.name) or not isinstance(name, str):
                parts += (begin, _COMPLETE, request)
            else:
                parts += (begin, _COMPLETE, before, ',"name":', quote(name), after)
            if decision is not last or status != last_status:
                last, last_status = decision, status
                result = (status, decision.reason)
                outcome, end = find_outcome(result) or texts.add_outcome(result)
            since = ended - ends
            if not 0 <= since < _MILLISECOND:
                since, ends, end_text = self._read_millisecond(ended)
            parts += (outcome, began, _STAGE_TIME, end_text, _DIGITS[since // 1000], end)
        return escaped("".join(parts).encode("utf-8", "replace"))

    def _general_lines(self, one: Pending) -> list[str]:
        """The lines of a request with annotations, impersonation, a body or its own Audit-Id; or of one event."""
        return [self._short_line(event) for event in events_of((one,))]

    def line(self, event: Event, *, bodies: bool = True) -> bytes:
        """The event as JSON, without a newline. `bodies` False leaves out objects, to shorten it."""
        record, stage, at, status = event
        if stage is REQUEST_RECEIVED or not record.is_long:
            return escaped(self._short_line(event)[:-1].encode("utf-8", "replace"))
        parts = [self._head(record, stage).encode("utf-8", "replace"), response_status(record, stage, status)]
        truncated = record.treatment.level > _METADATA and _add_bodies(parts, record, bodies=bodies)
        times = f"{_RECEIVED_TIME}{self._time(record.received_at)}{_STAGE_TIME}{self._time(at)}"
        tail = f'{times}Z"{self._texts.annotations(record, truncated=truncated)}}}'
        parts.append(tail.encode("utf-8", "replace"))
        return escaped(b"".join(parts))

    def _short_line(self, event: Event) -> str:
        """The line of an event without bodies, with its newline."""
        record, stage, at, status = event
        head, received = self._head(record, stage), self._time(record.received_at)
        if stage is REQUEST_RECEIVED:
            annotations = annotations_json(record.first_annotations)
            return f'{head}{_RECEIVED_TIME}{received}{_STAGE_TIME}{received}Z"{annotations}}}\n'
        response = response_status(record, stage, status).decode()
        truncated = record.truncated and record.treatment.level is not _METADATA
        times = f"{_RECEIVED_TIME}{received}{_STAGE_TIME}{self._time(at)}"
        decision = record.decided
        if decision is not None and decision.allowed and not truncated and not record.annotations:
            result = (status, decision.reason)
            _, end = self._texts.outcomes.get(result) or self._texts.add_outcome(result)
            return f"{head}{response}{times}{end}"
        return f'{head}{response}{times}Z"{self._texts.annotations(record, truncated=truncated)}}}\n'

    def _head(self, record: AuditRecord, stage: str) -> str:
        """Everything up to the object."""
        audit_id = '"' + record.audit_id.decode() + '"'
        if not record.audit_number:  # chosen by the client
            audit_id = quote(record.audit_id.decode("utf-8", "replace"))
        request = self._request(record, later=stage is not REQUEST_RECEIVED)
        return f'{self._starts[record.treatment.level]}{audit_id},"stage":"{stage}","requestURI":{request}'

    def _request(self, record: AuditRecord, *, later: bool) -> str:
        """URI, verb, user and object; in later events with what the server has learned meanwhile."""
        texts, attributes = self._texts, record.attributes_
        impersonated, written, name = None, None, ""
        if later:
            impersonated, written, body = record.impersonated, record.written, record.response_body
            if body is not None and not attributes.name and attributes.verb == "create":
                name = name_in(body)
        if record.audit_number and impersonated is None and written is None and not name:
            key = (fields_of(attributes.user), attributes.verb, record.target)
            return (texts.requests.get(key) or texts.add_request(key, record))[0]
        path, query, _, _ = record.target
        asked = quote(f"{path}?{query}" if query else path) + texts.client(record, impersonated)
        return (
            asked + "".join(texts.object_of(attributes, written, name)) if attributes.is_resource else asked
        )

    def _time(self, at: int) -> str:
        """The time, without the Z."""
        since, _, text = self._read_millisecond(at)
        return text + _DIGITS[since // 1000]

    def _read_millisecond(self, at: int) -> tuple[int, int, str]:
        """The nanoseconds since the start of the millisecond, that start, and its text."""
        milliseconds, since = divmod(at, _MILLISECOND)
        second, fraction = divmod(milliseconds, 1000)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
        return since, at - since, self._second_text + _DIGITS[fraction]


def _add_bodies(parts: list[bytes], record: AuditRecord, *, bodies: bool) -> bool:
    """Add the objects that the level asks for; return whether one is left out because it is too large."""
    truncated = record.truncated
    omit = record.treatment.omit_managed_fields
    wanted = [(b',"requestObject":', record.request_body)]
    if record.treatment.level is Level.REQUEST_RESPONSE:
        wanted.append((b',"responseObject":', record.response_body))
    for field, body in wanted:
        if body is None:
            continue
        if not bodies:
            truncated = True
            continue
        if text := embedded(body, omit_managed_fields=omit):
            parts += (field, text)
    return truncated


def events_of(pending: Iterable[Pending]) -> list[Event]:
    """The events, including those that records represent."""
    events: list[Event] = []
    for one in pending:
        if isinstance(one, tuple):
            events.append(one)
            continue
        if one.treatment.is_received:
            events.append(Event(one, REQUEST_RECEIVED, one.received_at, 0))
        if one.completed_at:
            events.append(Event(one, RESPONSE_COMPLETE, one.completed_at, one.status))
    return events


_CACHED_REQUESTS = 1024
_CACHED = 4096  # texts of each kind: clients can invent any number
_LONGEST_CACHED = 4096  # characters; a user may have dozens of groups
_PATCHES: Final = "patch.webhook.admission."  # prefix of annotations with patches of webhooks
# Everything known about a user.
UserFields = tuple[str, str, tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]
# User, verb, client fields of the headers, address.
ClientKey = tuple[UserFields, str, ClientFields, str]
# User, verb, path and client.
RequestKey = tuple[UserFields, str, Target]
# Status code, and the reason of the decision that allowed it.
Outcome = tuple[int, str]
K = TypeVar("K")
V = TypeVar("V")


class Place(NamedTuple):
    """The fields of an objectRef besides the names of its object."""

    group: str
    version: str
    resource: str
    subresource: str
    namespace: str


def place_of(attributes: Attributes, namespace: str) -> Place:
    return Place(attributes.group, attributes.version, attributes.resource, attributes.subresource, namespace)


class Texts:
    """Cached texts. Used by one thread at a time. Callers look into the dicts directly, which saves calls."""

    def __init__(self, names: Names) -> None:
        authorization = names.group("authorization")
        self._decision, self._reason = f"{authorization}/decision", f"{authorization}/reason"
        self._truncated = f"{names.group('audit')}/truncated"
        # URI, verb, user and object: all of it; up to the objectRef; up to the name; and after the name. Empty
        # without an object.
        self.requests: dict[RequestKey, tuple[str, str, str, str]] = {}
        # Verb, user, addresses and user agent.
        self.clients: dict[ClientKey, str] = {}
        # The objectRef before and after the name.
        self.objects: dict[Place, tuple[str, str]] = {}
        # The responseStatus up to the time of arrival; and what follows the last time.
        self.outcomes: dict[Outcome, tuple[str, str]] = {}

    def add_request(self, key: RequestKey, record: AuditRecord) -> tuple[str, str, str, str]:
        attributes = record.attributes_
        user, verb, (path, query, client, address) = key
        client_key = (user, verb, client, address)
        known = self.clients.get(client_key)
        who = known or self.add_client(client_key, record)
        request = before = asked = quote(f"{path}?{query}" if query else path) + who
        rest = ""
        if attributes.is_resource:
            place, name = place_of(attributes, attributes.namespace), attributes.name
            what, rest = self.objects.get(place) or self.add_object(place)
            before = asked + what
            request = f'{before},"name":{quote(name)}{rest}' if name else before + rest
        made = (request, asked, before, rest)
        if known is not None and len(request) <= _LONGEST_CACHED:  # a long client is not cached either
            if len(self.requests) >= _CACHED_REQUESTS:
                self.requests.clear()
            self.requests[key] = made
        return made

    def client(self, record: AuditRecord, impersonated: User | None) -> str:
        """Verb, user, impersonated user, addresses and user agent."""
        attributes = record.attributes_
        if impersonated is not None:
            text = f',"impersonatedUser":{user_json(impersonated)}'
            if constraint := record.impersonation_constraint:
                text += f',"authenticationMetadata":{{"impersonationConstraint":{quote(constraint)}}}'
            return _client_text(record, text)
        _, _, client, address = record.target
        if client.audit_id is not None:
            client = client._replace(audit_id=None)
        key = (fields_of(attributes.user), attributes.verb, client, address)
        return self.clients.get(key) or self.add_client(key, record)

    def add_client(self, key: ClientKey, record: AuditRecord) -> str:
        made, (_, _, client, _) = _client_text(record), key
        _keep(self.clients, key, made, len(made) + sum([len(one) for one in client if one is not None]))
        return made

    def object_of(
        self, attributes: Attributes, written: SentNames | None, name: str = ""
    ) -> tuple[str, str, str]:
        """The objectRef before the name, the name, and what follows.

        The object is that of the path or, if the path has none, that of the body, or the one with this name.
        """
        namespace = written_name = uid = resource_version = ""
        if written is not None:
            namespace, written_name, uid, resource_version = map(_text, written)
        place = place_of(attributes, attributes.namespace or namespace)
        before, after = self.objects.get(place) or self.add_object(place)
        name = attributes.name or written_name or name
        named = f',"name":{quote(name)}' if name else ""
        if uid:
            named += f',"uid":{quote(uid)}'
        if resource_version:
            after = _after_name(place, f',"resourceVersion":{quote(resource_version)}')
        return before, named, after

    def add_object(self, place: Place) -> tuple[str, str]:
        before = f',"objectRef":{{"resource":{quote(place.resource)}'
        if place.namespace:
            before += f',"namespace":{quote(place.namespace)}'
        made = (before, _after_name(place))
        _keep(self.objects, place, made, len(made[0]) + len(made[1]))
        return made

    def add_outcome(self, outcome: Outcome) -> tuple[str, str]:
        status, reason = outcome
        shown = f'"code":{status}' if status else CLOSED_EARLY
        made = (
            f',"responseStatus":{{"metadata":{{}},{shown}}},"requestReceivedTimestamp":"',
            f'Z"{annotations_json(self._of_decision(Decision(_ALLOW, reason)))}}}\n',
        )
        _keep(self.outcomes, outcome, made, len(made[1]))
        return made

    def annotations(self, record: AuditRecord, *, truncated: bool) -> str:
        """The annotations, as a field that follows others; empty if there are none."""
        found = self._of_decision(record.decided)
        if record.annotations:
            found |= record.annotations
            if record.treatment.level < Level.REQUEST:
                # The changes of webhooks are part of the body.
                found = {key: value for key, value in found.items() if not key.startswith(_PATCHES)}
        if truncated:
            found[self._truncated] = "true"
        return annotations_json(found)

    def _of_decision(self, decision: Decision | None) -> dict[str, str]:
        if decision is None:
            return {}
        return {
            self._decision: "allow" if decision.allowed else "forbid",
            self._reason: decision.reason,
        }


def fields_of(user: User) -> UserFields:
    return user.name, user.uid, user.groups, user.extra


def annotations_json(found: dict[str, str] | None) -> str:
    """The annotations as a field that follows others; empty if there are none."""
    if not found:
        return ""
    fields = ",".join([f"{quote(key)}:{quote(found[key])}" for key in sorted(found)])
    return f',"annotations":{{{fields}}}'


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _client_text(record: AuditRecord, impersonated: str = "") -> str:
    attributes = record.attributes_
    who = f"{user_json(attributes.user)}{impersonated}{origin_json(record.target)}"
    return f',"verb":{quote(attributes.verb)},"user":{who}'


def _after_name(place: Place, resource_version: str = "") -> str:
    text = f',"apiGroup":{quote(place.group)}' if place.group else ""
    text += f',"apiVersion":{quote(place.version)}{resource_version}'
    return f'{text},"subresource":{quote(place.subresource)}}}' if place.subresource else text + "}"


def _keep(texts: dict[K, V], key: K, made: V, size: int) -> None:
    """Cache a text, unless it is long."""
    if size > _LONGEST_CACHED:
        return
    if len(texts) >= _CACHED:
        texts.clear()
    texts[key] = made


_STATUS_FIELDS = ("status", "message", "reason", "details")
CLOSED_EARLY: Final = '"status":"Success","message":"Connection closed early","code":200'


def response_status(record: AuditRecord, stage: str, status: int) -> bytes:
    if not status:
        return f',"responseStatus":{{"metadata":{{}},{CLOSED_EARLY}}}'.encode()
    if stage is PANIC:
        shown = f'"status":"Failure","message":{quote(record.message)},"reason":"InternalError",'
        return f',"responseStatus":{{"metadata":{{}},{shown}"code":{status}}}'.encode()
    body = record.response_body
    if body is not None and b'"Status"' in body[:128]:
        return _copied_status(body, status, record.message)
    if record.message:
        shown = f'"message":{quote(record.message)},'
        return f',"responseStatus":{{"metadata":{{}},{shown}"code":{status}}}'.encode()
    return b',"responseStatus":{"metadata":{},"code":%d}' % status


def _copied_status(body: bytes, code: int, message: str) -> bytes:
    """The fields of a response of kind Status, which an audit event shows at every level."""
    found = parsed(body)
    shown: dict[str, Any] = {"metadata": {}}
    if isinstance(found, dict) and found.get("kind") == "Status":
        shown |= {field: found[field] for field in _STATUS_FIELDS if found.get(field) not in ("", None)}
    if message:
        shown["message"] = message
    return b',"responseStatus":' + dumps({**shown, "code": code})
