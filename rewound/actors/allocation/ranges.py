"""Parses the flags for the ClusterIP networks and the node port range.

parse_networks("10.0.0.0/24,fd00::/108")   at most one network of each family, the preferred one first
parse_ports("30000-32767")
"""

from __future__ import annotations

import ipaddress

import msgspec

DEFAULT_NETWORKS = "10.0.0.0/24"
DEFAULT_PORTS = "30000-32767"


class ServiceRanges(msgspec.Struct, frozen=True):
    networks: tuple[str, ...] = (DEFAULT_NETWORKS,)
    node_ports: tuple[int, int] = (30000, 32767)


DEFAULT_RANGES = ServiceRanges()


def first_address(ranges: ServiceRanges) -> str:
    """The ClusterIP of the API server's own Service."""
    return str(ipaddress.ip_network(ranges.networks[0])[1])


def parse_networks(text: str) -> tuple[str, ...]:
    """Parse networks. Raises ValueError, whose message says what is wrong."""
    try:
        networks = [ipaddress.ip_network(part.strip()) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{error}; write it like {DEFAULT_NETWORKS}") from None
    if len({network.version for network in networks}) != len(networks):
        raise ValueError("gives two networks of one family; give one of IPv4, one of IPv6, or one of each")
    if any(network.num_addresses < 8 for network in networks):
        raise ValueError(f"is too small for services; give at least a /29, the usual is {DEFAULT_NETWORKS}")
    return tuple(str(network) for network in networks)


def parse_ports(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not dash or not (first.isascii() and last.isascii() and first.isdigit() and last.isdigit()):
        raise ValueError(f"{text!r} is not a range of ports; write it like {DEFAULT_PORTS}")
    ports = int(first), int(last)
    if not 1 <= ports[0] <= ports[1] <= 65535:
        raise ValueError(f"{text!r} is not a range within 1 and 65535; the usual is {DEFAULT_PORTS}")
    return ports
