"""The names a serving certificate answers to: this machine's, the bind address, the in-cluster Service."""

from __future__ import annotations

import ipaddress
import re
import socket

from actors.names import Names

_DNS_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")


def serving_names(names: Names, bind_address: str) -> tuple[str, ...]:
    """Host names and addresses, each once. An address that stands for all of them is not a name."""
    service = f"{names.api_service}.default"
    wanted = [
        "localhost",
        "127.0.0.1",
        "::1",
        socket.gethostname(),
        bind_address,
        names.api_service,
        service,
        f"{service}.svc",
        f"{service}.svc.{names.service_domain}",
    ]
    return tuple(dict.fromkeys(name for name in map(_canonical, wanted) if name))


def _canonical(name: str) -> str:
    """Empty where a certificate cannot carry it."""
    address = address_of(name)
    if address is not None:
        return "" if address.is_unspecified else str(address)
    return name.lower() if len(name) <= 253 and _DNS_NAME.fullmatch(name) else ""


def address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
