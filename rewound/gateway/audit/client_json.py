"""The client fields of an event: its user, its addresses and its user agent.

The addresses are those in X-Forwarded-For and X-Real-Ip, in this order, and finally that of the connection.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from json.encoder import encode_basestring as quote

from rewound.actors.identity import User
from rewound.gateway.audit.record import Target

MAX_AGENT = 1024
_MAX_ADDRESSES = 64  # a client can claim any number of proxies
_LONGEST_CACHED = 256


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
    client, agent = target.client, target.client.agent
    addresses = source_addresses(client.forwarded_for, client.real_ip, target.address)
    text = f',"sourceIPs":{_list(addresses)}'
    return f'{text},"userAgent":{quote(agent_text(agent))}' if agent else text


def agent_text(agent: bytes) -> str:
    """The user agent, truncated like in Kubernetes."""
    if len(agent) > MAX_AGENT:
        agent = agent[:MAX_AGENT] + b"...TRUNCATED"
    return agent.decode(errors="replace")


def source_addresses(forwarded_for: bytes | None, real_ip: bytes | None, peer: str) -> tuple[str, ...]:
    if len(forwarded_for or b"") + len(real_ip or b"") > _LONGEST_CACHED:
        return _addresses(forwarded_for, real_ip, peer)
    return _cached(forwarded_for, real_ip, peer)


def _addresses(forwarded_for: bytes | None, real_ip: bytes | None, peer: str) -> tuple[str, ...]:
    claimed = (forwarded_for or b"").decode("latin-1").split(",", _MAX_ADDRESSES)[:_MAX_ADDRESSES]
    addresses = [one for one in map(_parsed, claimed) if one]
    real = _parsed((real_ip or b"").decode("latin-1"))
    if real and real not in addresses:
        addresses.append(real)
    remote = _parsed(peer)
    if remote and addresses[-1:] != [remote]:
        addresses.append(remote)
    return tuple(addresses)


_cached = lru_cache(maxsize=256)(_addresses)


def _parsed(text: str) -> str:
    """The address in canonical form; empty if it is not an address."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
