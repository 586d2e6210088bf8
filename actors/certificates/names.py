"""The names and addresses that a serving certificate is valid for: this machine's, and the API's Service."""

from __future__ import annotations

import re
import socket

from actors.certificates.addresses import address_of, reachable_addresses
from actors.names import Names

PROXY_NAME = "front-proxy-client"  # the common name by which aggregated servers know this one
_DNS_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")


def serving_names(
    names: Names, bind_addresses: tuple[str, ...], service_address: str = ""
) -> tuple[str, ...]:
    """Host names and addresses, each once. 0.0.0.0 and :: become every address of the machine."""
    service = f"{names.api_service}.default"
    wanted = [
        "localhost",
        "127.0.0.1",
        "::1",
        socket.gethostname(),
        *(reachable for one in bind_addresses for reachable in reachable_addresses(one)),
        service_address,
        names.api_service,
        service,
        f"{service}.svc",
        f"{service}.svc.{names.service_domain}",
    ]
    return tuple(dict.fromkeys(name for name in map(_canonical, wanted) if name))


def _canonical(name: str) -> str:
    """Empty for a name that a certificate cannot contain."""
    address = address_of(name)
    if address is not None:
        return "" if address.is_unspecified else str(address)
    return name.lower() if len(name) <= 253 and _DNS_NAME.fullmatch(name) else ""
