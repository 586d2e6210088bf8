"""JSON of what requests repeat: all of it that clients know when they ask, and how it ended.

Who asks, and which kind of object it is about, are also kept apart from each other: a request that is new in itself
mostly is not in these, and a thousand clients and a thousand kinds in namespaces are a million pairs. What is long
is not kept.
"""

from __future__ import annotations

from json.encoder import encode_basestring as quote
from typing import Any, Final, TypeVar

from actors.access.authorize import Attributes, Decision, Verdict
from actors.identity import User
from actors.names import Names
from gateway.audit.client_json import origin_json, user_json
from gateway.audit.policy import Level
from gateway.audit.record import AuditRecord, Target
from gateway.audit.response_status import CLOSED_EARLY
from gateway.exchange import Written
from gateway.message import ClientFields

_CACHED_REQUESTS = 1024
_CACHED = 4096  # texts of another kind: clients can invent any number
_LONGEST_CACHED = 4096  # characters; a user may have dozens of groups
_PATCHES: Final = "patch.webhook.admission."  # annotations with patches of webhooks begin so
_ALLOW: Final = Verdict.ALLOW
# All that is known of a user.
UserFields = tuple[str, str, tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]
# User, verb, what headers say of the client, its address.
ClientKey = tuple[UserFields, str, ClientFields, str]
# Group, version, resource, subresource and namespace: what Attributes have between verb and name.
Kind = tuple[Any, ...]
# User, verb, path and client.
RequestKey = tuple[UserFields, str, Target]
# Status code, reason of the decision that allowed it.
Outcome = tuple[int, str]
K = TypeVar("K")
V = TypeVar("V")


class Texts:
    """Used by one thread at a time. Callers look into the dicts themselves, which saves calls."""

    def __init__(self, names: Names) -> None:
        authorization = names.group("authorization")
        self._decision, self._reason = f"{authorization}/decision", f"{authorization}/reason"
        self._truncated = f"{names.group('audit')}/truncated"
        # URI, verb, user and object: the whole; up to the objectRef; up to the name; and after it, empty without an
        # object.
        self.requests: dict[RequestKey, tuple[str, str, str, str]] = {}
        # Verb, user, addresses and user agent.
        self.clients: dict[ClientKey, str] = {}
        # The objectRef before and after the name.
        self.objects: dict[Kind, tuple[str, str]] = {}
        # The responseStatus up to the time of arrival; what follows the last time.
        self.outcomes: dict[Outcome, tuple[str, str]] = {}

    def add_request(self, key: RequestKey, record: AuditRecord) -> tuple[str, str, str, str]:
        attributes = record.attributes_
        path, query, client, address = key[2]
        client_key = (key[0], key[1], client, address)
        known = self.clients.get(client_key)
        who = known or self.add_client(client_key, record)
        request = before = asked = quote(f"{path}?{query}" if query else path) + who
        rest = ""
        if attributes[9]:
            what, rest = self.objects.get(kind := attributes[2:7]) or self.add_object(kind)
            before = asked + what
            name = attributes[7]
            request = f'{before},"name":{quote(name)}{rest}' if name else before + rest
        made = (request, asked, before, rest)
        if known is not None and len(request) <= _LONGEST_CACHED:  # a long client is not known either
            if len(self.requests) >= _CACHED_REQUESTS:
                self.requests.clear()
            self.requests[key] = made
        return made

    def client(self, record: AuditRecord, impersonated: User | None) -> str:
        """Verb, user, impersonated user, addresses and user agent."""
        attributes = record.attributes_
        if impersonated is not None:
            return _client_text(record, f',"impersonatedUser":{user_json(impersonated)}')
        _, _, client, address = record.target
        if client.audit_id is not None:
            client = client._replace(audit_id=None)
        key = (fields_of(attributes.user), attributes.verb, client, address)
        return self.clients.get(key) or self.add_client(key, record)

    def add_client(self, key: ClientKey, record: AuditRecord) -> str:
        made = _client_text(record)
        _keep(self.clients, key, made, len(made) + sum([len(one) for one in key[2] if one is not None]))
        return made

    def object_of(
        self, attributes: Attributes, written: Written | None, name: str = ""
    ) -> tuple[str, str, str]:
        """The objectRef before the name, the name, and what follows.

        It is the object of the path; where the path says nothing, that of the body, or the one with this name.
        """
        namespace = written_name = uid = resource_version = ""
        if written is not None:
            namespace, written_name, uid, resource_version = map(_text, written)
        kind: Kind = (*attributes[2:6], attributes.namespace or namespace)
        before, after = self.objects.get(kind) or self.add_object(kind)
        name = attributes.name or written_name or name
        named = f',"name":{quote(name)}' if name else ""
        if uid:
            named += f',"uid":{quote(uid)}'
        if resource_version:
            after = _after_name(kind, f',"resourceVersion":{quote(resource_version)}')
        return before, named, after

    def add_object(self, kind: Kind) -> tuple[str, str]:
        resource, namespace = kind[2], kind[4]
        before = f',"objectRef":{{"resource":{quote(resource)}'
        if namespace:
            before += f',"namespace":{quote(namespace)}'
        made = (before, _after_name(kind))
        _keep(self.objects, kind, made, len(made[0]) + len(made[1]))
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
        """The annotations, as a field that follows others; empty without any."""
        found = self._of_decision(record.decided)
        if record.annotations:
            found |= record.annotations
            if record.treatment.level < Level.REQUEST:
                # What webhooks changed is a part of the body.
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
    """As a field that follows others; empty without any."""
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


def _after_name(kind: Kind, resource_version: str = "") -> str:
    group, version, _, subresource, _ = kind
    text = f',"apiGroup":{quote(group)}' if group else ""
    text += f',"apiVersion":{quote(version)}{resource_version}'
    return f'{text},"subresource":{quote(subresource)}}}' if subresource else text + "}"


def _keep(texts: dict[K, V], key: K, made: V, size: int) -> None:
    """Keep a text, unless it is long."""
    if size > _LONGEST_CACHED:
        return
    if len(texts) >= _CACHED:
        texts.clear()
    texts[key] = made
