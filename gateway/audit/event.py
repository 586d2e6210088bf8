"""Makes audit events of records: one JSON line each, in the field order of Kubernetes.

`EventFormat.line` runs once per event and backend: in the event loop for events without bodies, which take a few
microseconds, and otherwise in the thread that writes. It puts strings together instead of building a document, because
an event costs a third that way, and keeps the JSON of users and user agents, of which there are few, and what the two
events of a request have in common.
"""

from __future__ import annotations

import time
from json.encoder import encode_basestring as quote
from typing import Any, Final

import orjson

from actors.identity import User
from actors.names import Names
from gateway.audit.documents import embedded, name_in, parsed
from gateway.audit.policy import (
    LEVEL_NAMES,
    PANIC,
    REQUEST_RECEIVED,
    STAGES,
    Level,
)
from gateway.audit.record import AuditRecord
from gateway.audit.source_addresses import source_addresses

Event = tuple[AuditRecord, str, int, int]  # record, stage, microseconds since 1970, status code or 0

_MAX_AGENT = 1024
_STATUS_FIELDS = ("status", "message", "reason", "details")
_PATCHES: Final = "patch.webhook.admission."  # annotations with patches of webhooks begin so
_CACHED = 1024  # texts of a kind that repeat
_LONGEST_CACHED = 1024  # characters


class EventFormat:
    """Used by one thread at a time."""

    def __init__(self, names: Names) -> None:
        group = names.group("audit")
        self._starts = {
            (level, stage): (
                f'{{"kind":"Event","apiVersion":"{group}/v1","level":"{LEVEL_NAMES[level]}","auditID":',
                f',"stage":"{stage}","requestURI":',
            )
            for level in Level
            for stage in STAGES
        }
        self._truncated = f"{group}/truncated"
        authorization = names.group("authorization")
        self._decision, self._reason = f"{authorization}/decision", f"{authorization}/reason"
        self._clients: dict[tuple[int, bytes, str], tuple[User, str]] = {}
        self._decisions: dict[tuple[bool, str], str] = {}
        self._resources: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._second = -1
        self._second_text = ""

    def line(self, event: Event, *, bodies: bool = True) -> bytes:
        """The event as JSON, without a newline. `bodies` False leaves out objects, which shortens it."""
        record, stage, at, status = event
        level = record.treatment.level
        start, stage_text = self._starts[level, stage]
        shown = record.shown
        if shown is None or _shows_more(record):
            shown = self._request(record, stage)
        audit_id, request, received = shown
        head = f"{start}{audit_id}{stage_text}{request}"
        if stage is REQUEST_RECEIVED:
            record.shown = shown
            return f'{head}{received}"{self._timestamp(at)}"}}'.encode("utf-8", "replace")
        if status == 200 and record.response_body is None and level is Level.METADATA:
            # The most frequent case, in one piece.
            return (
                f'{head},"responseStatus":{{"metadata":{{}},"code":200}}'
                f'{received}"{self._timestamp(at)}"{self._annotations(record, truncated=False)}}}'
            ).encode("utf-8", "replace")
        parts = [head.encode("utf-8", "replace"), _response_status(record, stage, status)]
        truncated = level > Level.METADATA and self._add_bodies(parts, record, bodies=bodies)
        tail = f'{received}"{self._timestamp(at)}"{self._annotations(record, truncated=truncated)}'
        parts.append((tail + "}").encode("utf-8", "replace"))
        return b"".join(parts)

    def _request(self, record: AuditRecord, stage: str) -> tuple[str, str, str]:
        """The audit ID; URI, verb, user and object; when the request arrived."""
        attributes = record.attributes_
        uri = f"{record.path}?{record.query}" if record.query else record.path
        text = f'{quote(uri)},"verb":{quote(attributes.verb)},"user":{self._client(record, stage)}'
        if attributes.is_resource:
            text += self._object_ref(record, stage)
        received = self._timestamp(record.received_at)
        return (
            quote(record.audit_id.decode("utf-8", "replace")),
            text,
            f',"requestReceivedTimestamp":"{received}","stageTimestamp":',
        )

    def _client(self, record: AuditRecord, stage: str) -> str:
        """User, impersonated user, addresses and user agent; kept for clients that impersonate nobody."""
        user = record.attributes_.user
        impersonated = record.exchange.impersonated
        if impersonated is not None and stage is not REQUEST_RECEIVED:
            return f'{_user(user)},"impersonatedUser":{_user(impersonated)}{_origin(record)}'
        if record.forwarded_for is not None or record.real_ip is not None:
            return _user(user) + _origin(record)
        key = (id(user), record.agent, record.address)
        known = self._clients.get(key)
        if known is not None and known[0] is user:
            return known[1]
        text = _user(user) + _origin(record)
        if len(self._clients) >= _CACHED:
            self._clients.clear()
        if len(record.agent) <= _MAX_AGENT:
            self._clients[key] = (user, text)
        return text

    def _object_ref(self, record: AuditRecord, stage: str) -> str:
        """The object: by the path, and once the body is decoded by its metadata where the path says nothing."""
        _, verb, group, version, resource, subresource, namespace, name, _, _ = record.attributes_
        known = self._resources.get((group, version, resource))
        if known is None:
            known = self._resource(group, version, resource)
        uid = resource_version = ""
        written = record.exchange.written
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
        decision, others = record.decision_, record.exchange.annotations
        if truncated or others or decision is None:
            return self._all_annotations(record, truncated=truncated)
        key = (decision.allowed, decision.reason)
        text = self._decisions.get(key)
        if text is None:
            text = self._all_annotations(record, truncated=False)
            if len(self._decisions) >= _CACHED:
                self._decisions.clear()
            if len(text) <= _LONGEST_CACHED:
                self._decisions[key] = text
        return text

    def _all_annotations(self, record: AuditRecord, *, truncated: bool) -> str:
        found: dict[str, str] = {}
        decision = record.decision_
        if decision is not None:
            found[self._decision] = "allow" if decision.allowed else "forbid"
            found[self._reason] = decision.reason
        if record.exchange.annotations:
            found |= record.exchange.annotations
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
        second = microseconds // 1_000_000
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{microseconds - second * 1_000_000:06d}Z"


def _shows_more(record: AuditRecord) -> bool:
    """Whether a later event shows more of user and object than RequestReceived: what the server learned meanwhile."""
    exchange = record.exchange
    return (
        exchange.impersonated is not None
        or exchange.written is not None
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
    addresses = source_addresses(record.forwarded_for, record.real_ip, record.address)
    text = f',"sourceIPs":{_list(addresses)}'
    return f'{text},"userAgent":{quote(agent_text(record.agent))}' if record.agent else text


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
