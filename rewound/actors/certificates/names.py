"""The addresses at which clients reach a server, and the names that its certificate is valid for.

Addresses are for the certificate, the Endpoints and the banner; the certificate also has the names of the API's
Service. A server on 0.0.0.0 or :: listens on every address of the machine. The first of them is the one that the
machine uses towards its default route, as v1.25 chooses its advertise address; loopback if the machine has no other.
Nothing here sends a packet: connecting a UDP socket only looks up the route. Rejected: resolving the host name, which
may query a name server and often gives 127.0.1.1.
"""

from __future__ import annotations

import fcntl
import ipaddress
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the child that creates certificates needs no names of kinds
    from rewound.actors.names import Names

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Addresses of the documentation ranges: they only select the route, no packet is sent.
_FAR = {socket.AF_INET: "203.0.113.1", socket.AF_INET6: "2001:db8::1"}
_DISCARD_PORT = 9
_GET_INTERFACE_ADDRESS = 0x8915  # SIOCGIFADDR of Linux
_IPV6_ADDRESSES = Path("/proc/net/if_inet6")


def address_of(name: str) -> Address | None:
    """Parse an IP address; None for a host name."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def reachable_addresses(listening: str) -> tuple[str, ...]:
    """The addresses at which clients reach a server that listens on this one, the preferred one first.

    A host name is returned unchanged. A socket on :: accepts IPv4 connections too.
    """
    address = address_of(listening)
    if address is None or not address.is_unspecified:
        return (listening if address is None else str(address),)
    if address.version == 4:
        return tuple(_machine_addresses(socket.AF_INET)) or ("127.0.0.1",)
    found = (*_machine_addresses(socket.AF_INET6), *_machine_addresses(socket.AF_INET))
    return found or ("::1",)


def _machine_addresses(family: socket.AddressFamily) -> dict[str, None]:
    """The addresses of the machine without duplicates, the preferred one first."""
    found = [*_by_default_route(family), *_of_interfaces(family)]
    return {str(one): None for one in map(ipaddress.ip_address, found) if _ordinary(one)}


def _ordinary(address: Address) -> bool:
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)


def _by_default_route(family: socket.AddressFamily) -> Iterator[str]:
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((_FAR[family], _DISCARD_PORT))
        yield probe.getsockname()[0]


def _of_interfaces(family: socket.AddressFamily) -> Iterator[str]:
    return _ipv4_of_interfaces() if family == socket.AF_INET else _ipv6_of_interfaces()


def _ipv4_of_interfaces() -> Iterator[str]:
    """The first address of each interface; none if the kernel is not Linux."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                request = struct.pack("256s", name.encode()[:15])
                yield socket.inet_ntoa(fcntl.ioctl(probe, _GET_INTERFACE_ADDRESS, request)[20:24])


def _ipv6_of_interfaces() -> Iterator[str]:
    with suppress(OSError):
        for line in _IPV6_ADDRESSES.read_text().splitlines():
            yield str(ipaddress.IPv6Address(bytes.fromhex(line.split()[0])))


PROXY_NAME = "front-proxy-client"  # the common name that identifies this server to aggregated servers
_DNS_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")


def serving_names(
    names: Names, bind_addresses: tuple[str, ...], service_address: str = ""
) -> tuple[str, ...]:
    """Host names and addresses without duplicates. 0.0.0.0 and :: become every address of the machine."""
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
    return tuple(dict.fromkeys(name for name in map(certificate_name, wanted) if name))


def certificate_name(name: str) -> str:
    """The normalized name; empty if a certificate cannot contain it."""
    address = address_of(name)
    if address is not None:
        return "" if address.is_unspecified else str(address)
    return name.lower() if len(name) <= 253 and _DNS_NAME.fullmatch(name) else ""
