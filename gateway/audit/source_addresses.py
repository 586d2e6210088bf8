"""The addresses that a request came through: what proxies say in headers, then the peer of the connection."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

_MAX = 64  # a client can claim any number of proxies


_LONGEST_CACHED = 256


def source_addresses(forwarded_for: bytes | None, real_ip: bytes | None, peer: str) -> tuple[str, ...]:
    if len(forwarded_for or b"") + len(real_ip or b"") > _LONGEST_CACHED:
        return _addresses(forwarded_for, real_ip, peer)
    return _cached(forwarded_for, real_ip, peer)


def _addresses(forwarded_for: bytes | None, real_ip: bytes | None, peer: str) -> tuple[str, ...]:
    found = [_parsed(part) for part in (forwarded_for or b"").decode("latin-1").split(",", _MAX)[:_MAX]]
    addresses = [one for one in found if one]
    real = _parsed((real_ip or b"").decode("latin-1"))
    if real and real not in addresses:
        addresses.append(real)
    remote = _parsed(peer)
    if remote and addresses[-1:] != [remote]:
        addresses.append(remote)
    return tuple(addresses)


_cached = lru_cache(maxsize=256)(_addresses)


def _parsed(text: str) -> str:
    """The address in its usual form; empty if it is none."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
