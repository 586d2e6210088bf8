"""Makes audit events of records: one JSON line each, in the field order of Kubernetes.

`EventFormat.lines` makes lines of many events without bodies in the event loop, `EventFormat.line` of one with bodies
in the thread that writes. Both put strings together instead of building a document, because an event costs a third
that way, and keep what repeats: the JSON of users and user agents, of which there are few, of requests that clients
repeat, and what the two events of a request have in common.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from json.encoder import encode_basestring as quote
from typing import Any, Final

import orjson

from actors.access.authorize import Verdict
from actors.identity import User
from actors.names import Names
from gateway.audit.documents import embedded, name_in, parsed
from gateway.audit.policy import (
    LEVEL_NAMES,
    PANIC,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    Level,
)
from gateway.audit.record import AuditRecord, Target
from gateway.audit.source_addresses import source_addresses

Event = tuple[AuditRecord, str, int, int]  # record, stage, microseconds since 1970, status code or 0

_MAX_AGENT = 1024
_STATUS_FIELDS = ("status", "message", "reason", "details")
_PATCHES: Final = "patch.webhook.admission."  # annotations with patches of webhooks begin so
_CACHED = 1024  # texts of a kind that repeat
_LONGEST_CACHED = 1024  # characters


_ALLOW: Final = Verdict.ALLOW
_METADATA: Final = Level.METADATA
_DIGITS: Final = [
    f"{number:03d}" for number in range(1000)
]  # a format of six digits takes three times as long
# The responseStatus of successful responses.
_STATUSES: Final = {
    status: f',"responseStatus":{{"metadata":{{}},"code":{status}}}' for status in (101, 200, 201, 202, 204)
}


class EventFormat:
    """Used by one thread at a time."""

    def __init__(self, names: Names) -> None:
        group = names.group("audit")
        self._starts = {
            level: f'{{"kind":"Event","apiVersion":"{group}/v1","level":"{LEVEL_NAMES[level]}","auditID":'
            for level in Level
        }
        self._metadata_start = self._starts[_METADATA]
        self._truncated = f"{group}/truncated"
        authorization = names.group("authorization")
        self._decision, self._reason = f"{authorization}/decision", f"{authorization}/reason"
        # Values refer to the user whose id is in the key, so that no other user has this id.
        self._requests: dict[tuple[int, str, Target], tuple[User, str]] = {}
        self._clients: dict[tuple[int, bytes, str], tuple[User, str]] = {}
        self._allowed: dict[str, str] = {}
        self._resources: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._second = self._millisecond = -1
        self._second_text = self._millisecond_text = ""

    def lines(self, events: Sequence[Event]) -> bytes:
        """The lines of events that show no bodies, each with its newline."""
        texts: list[str] = []
        remaining = iter(events)
        event = next(remaining, None)
        while event is not None:
            following = next(remaining, None)
            # Most often the other event of a request follows its RequestReceived.
            if following is not None and following[0] is event[0] and event[1] is REQUEST_RECEIVED:
                texts.append(self._both_lines(event, following))
                event = next(remaining, None)
            else:
                texts.append(self._short_line(event))
                event = following
        return "".join(texts).encode("utf-8", "replace")

    def line(self, event: Event, *, bodies: bool = True) -> bytes:
        """The event as JSON, without a newline. `bodies` False leaves out objects, which shortens it."""
        record, stage, at, status = event
        if stage is REQUEST_RECEIVED or not record.has_bodies:
            return self._short_line(event)[:-1].encode("utf-8", "replace")
        audit_id, request, moment = self._shown(record, stage)
        head = f'{self._starts[record.treatment.level]}{audit_id},"stage":"{stage}","requestURI":{request}'
        parts = [head.encode("utf-8", "replace"), _response_status(record, stage, status)]
        truncated = record.treatment.level > Level.METADATA and self._add_bodies(parts, record, bodies=bodies)
        times = f',"requestReceivedTimestamp":"{moment}","stageTimestamp":"{self._timestamp(at)}"'
        tail = f"{times}{self._annotations(record, truncated=truncated)}}}"
        parts.append(tail.encode("utf-8", "replace"))
        return b"".join(parts)

    def _both_lines(self, first: Event, last: Event) -> str:
        """The two events of a request; at once if they are those of an ordinary, successful one."""
        record, stage, at, status = last
        target, attributes, decision = record.target, record.attributes_, record.decision_
        known = self._requests.get((id(attributes[0]), attributes[1], target))
        annotations, response = None, _STATUSES.get(status)
        if decision is not None and decision.verdict is _ALLOW:
            annotations = self._allowed.get(decision.reason)
        if (
            known is None
            or annotations is None
            or response is None
            or stage is not RESPONSE_COMPLETE
            or record.treatment.level is not _METADATA
            or target[2][3] is not None  # the client chose the Audit-Id
            or record.annotations
            or record.message
            or record.impersonated is not None
            or record.written is not None
            or record.response_body is not None
        ):
            return self._short_line(first) + self._short_line(last)
        start, audit_id, request = self._metadata_start, record.audit_id.decode(), known[1]
        received_at = record.received_at
        millisecond, rest = divmod(received_at, 1000)
        if millisecond != self._millisecond:
            self._read_millisecond(millisecond)
        moment = f"{self._millisecond_text}{_DIGITS[rest]}Z"
        rest += at - received_at
        ended = f"{self._millisecond_text}{_DIGITS[rest]}Z" if 0 <= rest < 1000 else self._timestamp(at)
        return (
            f'{start}"{audit_id}","stage":"RequestReceived","requestURI":{request}'
            f',"requestReceivedTimestamp":"{moment}","stageTimestamp":"{moment}"}}\n'
            f'{start}"{audit_id}","stage":"ResponseComplete","requestURI":{request}{response}'
            f',"requestReceivedTimestamp":"{moment}","stageTimestamp":"{ended}"{annotations}}}\n'
        )

    def _short_line(self, event: Event) -> str:
        """The line of an event that shows no bodies, with its newline."""
        record, stage, at, status = event
        level = record.treatment.level
        start = self._starts[level]
        if stage is REQUEST_RECEIVED:
            audit_id, request, moment = record.shown = self._shown(record, stage)
            return (
                f'{start}{audit_id},"stage":"RequestReceived","requestURI":{request}'
                f',"requestReceivedTimestamp":"{moment}","stageTimestamp":"{moment}"}}\n'
            )
        shown = record.shown
        if shown is None or record.impersonated is not None or record.written is not None:
            shown = self._shown(record, stage)
        audit_id, request, moment = shown
        response = _STATUSES.get(status) if not record.message else None
        if response is None:
            response = _response_status(record, stage, status).decode()
        annotations = self._annotations(record, truncated=level is not _METADATA and record.truncated)
        return (
            f'{start}{audit_id},"stage":"{stage}","requestURI":{request}{response}'
            f',"requestReceivedTimestamp":"{moment}","stageTimestamp":"{self._timestamp(at)}"{annotations}}}\n'
        )

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
            if len(known[1]) + sum([len(one) for one in client if one is not None]) <= _LONGEST_CACHED:
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
            return f'{_user(user)},"impersonatedUser":{_user(impersonated)}{_origin(record)}'
        agent, forwarded_for, real_ip, _ = record.client
        if forwarded_for is not None or real_ip is not None:
            return _user(user) + _origin(record)
        key = (id(user), agent, record.address)
        known = self._clients.get(key)
        if known is not None:
            return known[1]
        text = _user(user) + _origin(record)
        if len(self._clients) >= _CACHED:
            self._clients.clear()
        if len(agent) <= _MAX_AGENT:
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
        decision = record.decision_
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
        decision = record.decision_
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

    def _timestamp(self, microseconds: int) -> str:
        millisecond, rest = divmod(microseconds, 1000)
        if millisecond != self._millisecond:
            self._read_millisecond(millisecond)
        return f"{self._millisecond_text}{_DIGITS[rest]}Z"

    def _read_millisecond(self, millisecond: int) -> None:
        """Keep the text of the millisecond: the next time stamps are likely to be in it, too."""
        second, thousandths = divmod(millisecond, 1000)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
        self._millisecond = millisecond
        self._millisecond_text = self._second_text + _DIGITS[thousandths]


def _shows_more(record: AuditRecord) -> bool:
    """Whether a later event shows more of user and object than RequestReceived: what the server learned meanwhile."""
    return (
        record.impersonated is not None
        or record.written is not None
        or (record.response_body is not None and not record.attributes_.name)
    )


def _list(texts: tuple[str, ...]) -> str:
    return "[" + ",".join(map(quote, texts)) + "]"


def _user(user: User) -> str:
    fields = []
    if user.name:
        fields.append(f'"username":{quote(user.name)}')
    if user.uid:
        fields.append(f'"uid":{quote(user.uid)}')
    if user.groups:
        fields.append(f'"groups":{_list(user.groups)}')
    if user.extra:
        extra = ",".join(f"{quote(key)}:{_list(values)}" for key, values in sorted(user.extra))
        fields.append(f'"extra":{{{extra}}}')
    return "{" + ",".join(fields) + "}"


def _origin(record: AuditRecord) -> str:
    agent, forwarded_for, real_ip, _ = record.client
    addresses = source_addresses(forwarded_for, real_ip, record.address)
    text = f',"sourceIPs":{_list(addresses)}'
    return f'{text},"userAgent":{quote(agent_text(agent))}' if agent else text


def agent_text(agent: bytes) -> str:
    """The user agent, shortened as Kubernetes shortens it."""
    if len(agent) > _MAX_AGENT:
        agent = agent[:_MAX_AGENT] + b"...TRUNCATED"
    return agent.decode(errors="replace")


_CLOSED_EARLY: Final = (
    b',"responseStatus":{"metadata":{},"status":"Success","message":"Connection closed early","code":200}'
)


def _response_status(record: AuditRecord, stage: str, status: int) -> bytes:
    if not status:
        return _CLOSED_EARLY
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
    """What a response of kind Status says; an audit event shows it at every level."""
    found = parsed(body)
    shown: dict[str, Any] = {"metadata": {}}
    if isinstance(found, dict) and found.get("kind") == "Status":
        shown |= {field: found[field] for field in _STATUS_FIELDS if found.get(field)}
    if message:
        shown["message"] = message
    return b',"responseStatus":' + orjson.dumps({**shown, "code": code})
