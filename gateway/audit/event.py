"""Makes audit events of records: one JSON line each, in the field order of Kubernetes.

`EventFormat.lines` makes lines of many events without bodies in the event loop, `EventFormat.line` of one with bodies
in the thread that writes. Both put strings together instead of building a document, because an event costs a third
that way, and keep what repeats: the JSON of users and user agents, of which there are few, of requests that clients
repeat, and what the two events of a request have in common.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring as quote
from typing import Final

from actors.access.authorize import Verdict
from actors.identity import User
from actors.names import Names
from gateway.audit.client_json import MAX_AGENT, origin_json, user_json
from gateway.audit.documents import embedded, name_in
from gateway.audit.policy import LEVEL_NAMES, REQUEST_RECEIVED, RESPONSE_COMPLETE, Level
from gateway.audit.record import AuditRecord, Event, Pending, Target
from gateway.audit.response_status import response_status
from gateway.requests.exchange import AUDIT_BASE
from gateway.requests.request import ClientFields

_PATCHES: Final = "patch.webhook.admission."  # annotations with patches of webhooks begin so
_CACHED = 1024  # texts of a kind that repeat
_LONGEST_CACHED = 1024  # characters
_ALLOW: Final = Verdict.ALLOW
_METADATA: Final = Level.METADATA
_DIGITS: Final = [
    b"%03d" % number for number in range(1000)
]  # a format of six digits takes three times as long
_HEX_DIGITS: Final = [b"%02x" % number for number in range(256)]  # the end of an Audit-Id
_MILLISECOND: Final = 1_000_000  # nanoseconds
_RECEIVED_TIME: Final = b',"requestReceivedTimestamp":"'
_STAGE_TIME: Final = b'Z","stageTimestamp":"'
_END_OF_FIRST: Final = b'Z"}\n'
# What successful requests show beside Audit-Id and times: after the Audit-Id of RequestReceived, after that of
# ResponseComplete, and at the end. The user is the one whose id is in the key.
_Ordinary = tuple[User, bytes, bytes, bytes]
_OrdinaryKey = tuple[
    int, str, Target, int, str
]  # id of the user, verb, target, status, reason of the decision


class EventFormat:
    """Used by one thread at a time."""

    def __init__(self, names: Names) -> None:
        group = names.group("audit")
        self._starts = {
            level: f'{{"kind":"Event","apiVersion":"{group}/v1","level":"{LEVEL_NAMES[level]}","auditID":'
            for level in Level
        }
        self._start = self._starts[_METADATA].encode() + b'"' + AUDIT_BASE + b"%010x"
        self._truncated = f"{group}/truncated"
        authorization = names.group("authorization")
        self._decision, self._reason = f"{authorization}/decision", f"{authorization}/reason"
        # Values refer to the user whose id is in the key, so that no other user has this id.
        self._ordinary: dict[_OrdinaryKey, _Ordinary] = {}
        self._requests: dict[tuple[int, str, Target], tuple[User, str]] = {}
        self._clients: dict[tuple[int, bytes, str], tuple[User, str]] = {}
        self._allowed: dict[str, str] = {}
        self._resources: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._second, self._second_text = -1, b""

    def lines(self, pending: Sequence[Pending]) -> bytes:
        """The lines, each with its newline, of events without bodies and of records that stand for their events."""
        parts: list[bytes] = []
        find, millisecond, text, numbers = self._ordinary.get, -_MILLISECOND, b"", -1
        start = b""
        for one in pending:  # one flat loop for ordinary requests: it makes most lines
            if isinstance(one, tuple) or one.rare is not None or not one.completed_at:
                parts += self._general_lines(one)
                continue
            number, decision = one.audit_number, one.decided
            if not number or decision is None or decision.verdict is not _ALLOW:
                parts += self._general_lines(one)
                continue
            attributes = one.attributes_
            key = (id(attributes[0]), attributes[1], one.target, one.status, decision.reason)
            _, received, complete, end = find(key) or self._make_ordinary(key, one)
            rest = one.received_at - millisecond
            if not 0 <= rest < _MILLISECOND:
                rest, millisecond, text = self._read_millisecond(one.received_at)
            began = text + _DIGITS[rest // 1000]
            rest = one.completed_at - millisecond
            if not 0 <= rest < _MILLISECOND:
                rest, millisecond, text = self._read_millisecond(one.completed_at)
            if number >> 8 != numbers:
                numbers = number >> 8
                start = self._start % numbers
            begin = start + _HEX_DIGITS[number & 255]
            parts += (begin, received, began, _STAGE_TIME, began, _END_OF_FIRST)
            parts += (begin, complete, began, _STAGE_TIME, text + _DIGITS[rest // 1000], end)
        return b"".join(parts)

    def _general_lines(self, one: Pending) -> list[bytes]:
        """Of a request with annotations, an impersonated user, a body or an Audit-Id of its own; or of one event."""
        return [self._short_line(event) for event in events_of((one,))]

    def line(self, event: Event, *, bodies: bool = True) -> bytes:
        """The event as JSON, without a newline. `bodies` False leaves out objects, which shortens it."""
        record, stage, at, status = event
        if stage is REQUEST_RECEIVED or not record.has_bodies:
            return self._short_line(event)[:-1]
        audit_id, request, moment = self._shown(record, stage)
        head = f'{self._starts[record.treatment.level]}{audit_id},"stage":"{stage}","requestURI":{request}'
        parts = [head.encode("utf-8", "replace"), response_status(record, stage, status)]
        truncated = record.treatment.level > Level.METADATA and self._add_bodies(parts, record, bodies=bodies)
        times = f',"requestReceivedTimestamp":"{moment}","stageTimestamp":"{self._timestamp(at)}"'
        tail = f"{times}{self._annotations(record, truncated=truncated)}}}"
        parts.append(tail.encode("utf-8", "replace"))
        return b"".join(parts)

    def _make_ordinary(self, key: _OrdinaryKey, record: AuditRecord) -> _Ordinary:
        """What the lines of such requests have in common; kept unless it is long."""
        request = self._request(record, RESPONSE_COMPLETE).encode("utf-8", "replace")
        made = (
            record.attributes_.user,
            b'","stage":"RequestReceived","requestURI":' + request + _RECEIVED_TIME,
            b'","stage":"ResponseComplete","requestURI":'
            + request
            + response_status(record, RESPONSE_COMPLETE, record.status)
            + _RECEIVED_TIME,
            b'Z"' + self._annotations(record, truncated=False).encode("utf-8", "replace") + b"}\n",
        )
        if len(self._ordinary) >= _CACHED:
            self._ordinary.clear()
        if len(request) + len(made[3]) + _size(record.client) <= _LONGEST_CACHED:
            self._ordinary[key] = made
        return made

    def _short_line(self, event: Event) -> bytes:
        """The line of an event that shows no bodies, with its newline."""
        record, stage, at, status = event
        level = record.treatment.level
        start = self._starts[level]
        if stage is REQUEST_RECEIVED:
            audit_id, request, moment = record.shown = self._shown(record, stage)
            line = (
                f'{start}{audit_id},"stage":"RequestReceived","requestURI":{request}'
                f',"requestReceivedTimestamp":"{moment}","stageTimestamp":"{moment}"}}\n'
            )
            return line.encode("utf-8", "replace")
        shown = record.shown
        if shown is None or record.impersonated is not None or record.written is not None:
            shown = self._shown(record, stage)
        audit_id, request, moment = shown
        response = response_status(record, stage, status).decode()
        annotations = self._annotations(record, truncated=level is not _METADATA and record.truncated)
        line = (
            f'{start}{audit_id},"stage":"{stage}","requestURI":{request}{response}'
            f',"requestReceivedTimestamp":"{moment}","stageTimestamp":"{self._timestamp(at)}"{annotations}}}\n'
        )
        return line.encode("utf-8", "replace")

    def _shown(self, record: AuditRecord, stage: str) -> tuple[str, str, str]:
        """The audit ID, the request, and when it arrived."""
        client = record.client
        if client.audit_id is not None:  # chosen by the client
            audit_id = quote(record.audit_id.decode("utf-8", "replace"))
        else:
            audit_id = f'"{record.audit_id.decode()}"'
        moment = self._timestamp(record.received_at)
        if stage is not REQUEST_RECEIVED and _shows_more(record):
            return audit_id, self._request(record, stage), moment
        attributes = record.attributes_
        user = attributes.user
        key = (id(user), attributes.verb, record.target)
        known = self._requests.get(key)
        if known is None:
            known = (user, self._request(record, stage))
            if len(self._requests) >= _CACHED:
                self._requests.clear()
            if len(known[1]) + _size(client) <= _LONGEST_CACHED:
                self._requests[key] = known
        return audit_id, known[1], moment

    def _request(self, record: AuditRecord, stage: str) -> str:
        """URI, verb, user and object."""
        attributes = record.attributes_
        uri = f"{record.path}?{record.query}" if record.query else record.path
        text = f'{quote(uri)},"verb":{quote(attributes.verb)},"user":{self._client(record, stage)}'
        return text + self._object_ref(record, stage) if attributes.is_resource else text

    def _client(self, record: AuditRecord, stage: str) -> str:
        """User, impersonated user, addresses and user agent; kept for clients that impersonate nobody."""
        user = record.attributes_.user
        impersonated = record.impersonated
        if impersonated is not None and stage is not REQUEST_RECEIVED:
            return (
                f'{user_json(user)},"impersonatedUser":{user_json(impersonated)}{origin_json(record.target)}'
            )
        agent, forwarded_for, real_ip, _ = record.client
        if forwarded_for is not None or real_ip is not None:
            return user_json(user) + origin_json(record.target)
        key = (id(user), agent, record.address)
        known = self._clients.get(key)
        if known is not None:
            return known[1]
        text = user_json(user) + origin_json(record.target)
        if len(self._clients) >= _CACHED:
            self._clients.clear()
        if len(agent) <= MAX_AGENT:
            self._clients[key] = (user, text)
        return text

    def _object_ref(self, record: AuditRecord, stage: str) -> str:
        """The object: by the path, and once the body is decoded by its metadata where the path says nothing."""
        _, verb, group, version, resource, subresource, namespace, name, _, _ = record.attributes_
        known = self._resources.get((group, version, resource))
        if known is None:
            known = self._resource(group, version, resource)
        uid = resource_version = ""
        written = record.written
        if stage is not REQUEST_RECEIVED:
            if written is not None:
                namespace, name = namespace or written.namespace, name or written.name
                uid, resource_version = written.uid, written.resource_version
            if not name and verb == "create" and record.response_body is not None:
                name = name_in(record.response_body)
        text = known[0]
        if namespace:
            text += f',"namespace":{quote(namespace)}'
        if name:
            text += f',"name":{quote(name)}'
        if uid:
            text += f',"uid":{quote(uid)}'
        text += known[1]
        if resource_version:
            text += f',"resourceVersion":{quote(resource_version)}'
        if subresource:
            text += f',"subresource":{quote(subresource)}'
        return text + "}"

    def _resource(self, group: str, version: str, resource: str) -> tuple[str, str]:
        """The bytes before and after the name of an object."""
        version_text = f',"apiVersion":{quote(version)}'
        end = f',"apiGroup":{quote(group)}{version_text}' if group else version_text
        made = (f',"objectRef":{{"resource":{quote(resource)}', end)
        if len(self._resources) >= _CACHED:  # clients can invent resources
            self._resources.clear()
        if len(made[0]) + len(end) <= _LONGEST_CACHED:
            self._resources[group, version, resource] = made
        return made

    def _add_bodies(self, parts: list[bytes], record: AuditRecord, *, bodies: bool) -> bool:
        """Add the objects that the level asks for; whether one is left out because it is too large."""
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

    def _annotations(self, record: AuditRecord, *, truncated: bool) -> str:
        decision = record.decided
        if truncated or record.annotations or decision is None or decision.verdict is not _ALLOW:
            return self._all_annotations(record, truncated=truncated)
        text = self._allowed.get(decision.reason)
        if text is None:
            text = self._all_annotations(record, truncated=False)
            if len(self._allowed) >= _CACHED:
                self._allowed.clear()
            if len(text) <= _LONGEST_CACHED:
                self._allowed[decision.reason] = text
        return text

    def _all_annotations(self, record: AuditRecord, *, truncated: bool) -> str:
        found: dict[str, str] = {}
        decision = record.decided
        if decision is not None:
            found[self._decision] = "allow" if decision.allowed else "forbid"
            found[self._reason] = decision.reason
        if record.annotations:
            found |= record.annotations
            if record.treatment.level < Level.REQUEST:
                # What webhooks changed is a part of the body.
                found = {key: value for key, value in found.items() if not key.startswith(_PATCHES)}
        if truncated:
            found[self._truncated] = "true"
        if not found:
            return ""
        return (
            ',"annotations":{' + ",".join(f"{quote(key)}:{quote(found[key])}" for key in sorted(found)) + "}"
        )

    def _timestamp(self, at: int) -> str:
        rest, _, text = self._read_millisecond(at)
        return f"{text.decode()}{rest // 1000:03d}Z"

    def _read_millisecond(self, at: int) -> tuple[int, int, bytes]:
        """How many nanoseconds after the beginning of its millisecond this is, that beginning, and its text."""
        milliseconds, rest = divmod(at, _MILLISECOND)
        second, fraction = divmod(milliseconds, 1000)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second)).encode()
        return rest, at - rest, self._second_text + _DIGITS[fraction]


def events_of(pending: Iterable[Pending]) -> list[Event]:
    """The events, with those that records stand for."""
    events: list[Event] = []
    for one in pending:
        if isinstance(one, tuple):
            events.append(one)
            continue
        if one.treatment.is_received:
            events.append((one, REQUEST_RECEIVED, one.received_at, 0))
        if one.completed_at:
            events.append((one, RESPONSE_COMPLETE, one.completed_at, one.status))
    return events


def _size(client: ClientFields) -> int:
    return sum([len(one) for one in client if one is not None])


def _shows_more(record: AuditRecord) -> bool:
    """Whether a later event shows more of user and object than RequestReceived: what the server learned meanwhile."""
    return (
        record.impersonated is not None
        or record.written is not None
        or (record.response_body is not None and not record.attributes_.name)
    )
