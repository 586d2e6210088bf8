"""Makes audit events of records: one JSON line each, in the field order of Kubernetes.

`EventFormat.line` runs in the thread that writes, once per event and backend. It puts strings together instead of
building a document, because an event costs a third that way, and keeps the JSON of users and user agents, of which
there are few.
"""

from __future__ import annotations

import time
from functools import lru_cache
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
    Level,
)
from gateway.audit.record import AuditRecord
from gateway.audit.source_addresses import source_addresses

Event = tuple[AuditRecord, str, int, int]  # record, stage, microseconds since 1970, status code or 0

_MAX_AGENT = 1024
_STATUS_FIELDS = ("status", "message", "reason", "details")
_CACHED_USERS = 1024


class EventFormat:
    """Used by one thread at a time."""

    def __init__(self, names: Names) -> None:
        group = names.group("audit")
        self.api_version = f"{group}/v1"
        self._start = f'{{"kind":"Event","apiVersion":"{group}/v1","level":"'
        self._truncated = f"{group}/truncated"
        authorization = names.group("authorization")
        self._decision, self._reason = f"{authorization}/decision", f"{authorization}/reason"
        self._users: dict[int, tuple[User, str]] = {}
        self._second = -1
        self._second_text = ""

    def line(self, event: Event, *, bodies: bool = True) -> bytes:
        """The event as JSON, without a newline. `bodies` False leaves out objects, which shortens it."""
        record, stage, at, status = event
        attributes, treatment, exchange = record.attributes_, record.treatment, record.exchange
        level = treatment.level
        received = stage is REQUEST_RECEIVED
        query = record.query
        uri = f"{record.path}?{query}" if query else record.path
        impersonated = exchange.impersonated
        head = (
            f'{self._start}{LEVEL_NAMES[level]}","auditID":{quote(record.audit_id.decode(errors="replace"))},'
            f'"stage":"{stage}","requestURI":{quote(uri)},"verb":{quote(attributes.verb)},'
            f'"user":{self._user(attributes.user)}'
        )
        if impersonated is not None and not received:
            head += f',"impersonatedUser":{self._user(impersonated)}'
        addresses = source_addresses(record.forwarded_for, record.real_ip, record.address)
        head += f',"sourceIPs":{_list(addresses)}'
        if record.agent:
            head += f',"userAgent":{_agent(record.agent)}'
        if attributes.is_resource:
            head += f',"objectRef":{_object_ref(record, received=received)}'
        parts = [head.encode(errors="replace")]
        truncated = False
        if not received:
            parts.append(_response_status(record, stage, status))
            if level > Level.METADATA:
                truncated = self._add_bodies(parts, record, bodies=bodies)
        tail = (
            f',"requestReceivedTimestamp":"{self.timestamp(record.received_at)}"'
            f',"stageTimestamp":"{self.timestamp(at)}"'
        )
        if not received:
            tail += self._annotations(record, truncated=truncated)
        parts.append((tail + "}").encode(errors="replace"))
        return b"".join(parts)

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

    def _user(self, user: User) -> str:
        known = self._users.get(id(user))
        if known is not None and known[0] is user:
            return known[1]
        text = _user_text(user)
        if len(self._users) >= _CACHED_USERS:
            self._users.clear()
        self._users[id(user)] = (user, text)
        return text

    def _annotations(self, record: AuditRecord, *, truncated: bool) -> str:
        found: dict[str, str] = {}
        decision = record.decision_
        if decision is not None:
            found[self._decision] = "allow" if decision.allowed else "forbid"
            found[self._reason] = decision.reason
        if record.exchange.annotations:
            found |= record.exchange.annotations
        if truncated:
            found[self._truncated] = "true"
        if not found:
            return ""
        return (
            ',"annotations":{' + ",".join(f"{quote(key)}:{quote(found[key])}" for key in sorted(found)) + "}"
        )

    def timestamp(self, microseconds: int) -> str:
        second, rest = divmod(microseconds, 1_000_000)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{rest:06d}Z"


def _list(texts: tuple[str, ...]) -> str:
    return "[" + ",".join(map(quote, texts)) + "]"


def _user_text(user: User) -> str:
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


def agent_text(agent: bytes) -> str:
    """The user agent, shortened as Kubernetes shortens it."""
    if len(agent) > _MAX_AGENT:
        agent = agent[:_MAX_AGENT] + b"...TRUNCATED"
    return agent.decode(errors="replace")


def _quoted_agent(agent: bytes) -> str:
    return quote(agent_text(agent))


_cached_agent = lru_cache(maxsize=256)(_quoted_agent)


def _agent(agent: bytes) -> str:
    return _cached_agent(agent) if len(agent) <= _MAX_AGENT else _quoted_agent(agent)


def _object_ref(record: AuditRecord, *, received: bool) -> str:
    """The object: by the path, and once the body is decoded by its metadata where the path says nothing."""
    _, _, group, version, resource, subresource, namespace, name, _, _ = record.attributes_
    uid = resource_version = ""
    written = record.exchange.written
    if not received:
        if written is not None:
            namespace, name = namespace or written.namespace, name or written.name
            uid, resource_version = written.uid, written.resource_version
        if not name and record.response_body is not None and record.attributes_.verb == "create":
            name = name_in(record.response_body)
    text = f'{{"resource":{quote(resource)}'
    if namespace:
        text += f',"namespace":{quote(namespace)}'
    if name:
        text += f',"name":{quote(name)}'
    if uid:
        text += f',"uid":{quote(uid)}'
    if group:
        text += f',"apiGroup":{quote(group)}'
    text += f',"apiVersion":{quote(version)}'
    if resource_version:
        text += f',"resourceVersion":{quote(resource_version)}'
    if subresource:
        text += f',"subresource":{quote(subresource)}'
    return text + "}"


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
