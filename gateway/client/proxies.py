"""The proxy of the environment for requests to a server: HTTPS_PROXY, HTTP_PROXY and NO_PROXY as Go reads them.

Clients read the same variables in different ways. The HTTP library would use ALL_PROXY too, and knows no networks in
NO_PROXY: then our commands would not reach a server that kubectl reaches.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def is_local(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def environment_proxy(server: str, environment: Mapping[str, str] = os.environ) -> str:
    """The URL of the proxy, or nothing. Servers on this machine need none."""
    parts = urlsplit(server)
    proxy = _variable(f"{parts.scheme}_proxy", environment)
    if not proxy or is_local(server):
        return ""
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    if any(_matches(one, host, port) for one in _variable("no_proxy", environment).split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name.upper()) or environment.get(name, "")


def _matches(item: str, host: str, port: int) -> bool:
    """Whether an item of NO_PROXY names the server: `*`, a network, or a host or address, maybe with a port.

    `example.com` names its subdomains too, `.example.com` and `*.example.com` only these.
    """
    item = item.strip().lower()
    if item == "*":
        return True
    address = _address(host)
    if "/" in item:
        return address is not None and _is_in(address, item)
    item, wanted = _split_port(item)
    if not item or wanted not in (None, port):
        return False
    if address is not None:
        return _address(item) == address
    return host == item or host.endswith("." + item.removeprefix("*").removeprefix("."))


def _split_port(item: str) -> tuple[str, int | None]:
    if _address(item) is not None:
        return item, None
    host, colon, port = item.rpartition(":")
    if not colon or not port.isdecimal():
        return item.strip("[]"), None
    return host.strip("[]"), int(port)


def _is_in(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False  # neither does Go report it


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
