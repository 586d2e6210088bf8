"""Users, addresses and user agents as JSON."""

from __future__ import annotations

from json.encoder import encode_basestring as quote

from actors.identity import User
from gateway.audit.record import Target
from gateway.audit.source_addresses import source_addresses

MAX_AGENT = 1024


def _list(texts: tuple[str, ...]) -> str:
    return "[" + ",".join(map(quote, texts)) + "]"


def user_json(user: User) -> str:
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


def origin_json(target: Target) -> str:
    """Addresses and user agent, as fields that follow others."""
    _, _, (agent, forwarded_for, real_ip, _), address = target
    addresses = source_addresses(forwarded_for, real_ip, address)
    text = f',"sourceIPs":{_list(addresses)}'
    return f'{text},"userAgent":{quote(agent_text(agent))}' if agent else text


def agent_text(agent: bytes) -> str:
    """The user agent, shortened as Kubernetes shortens it."""
    if len(agent) > MAX_AGENT:
        agent = agent[:MAX_AGENT] + b"...TRUNCATED"
    return agent.decode(errors="replace")
