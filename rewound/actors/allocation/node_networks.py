"""The networks of nodes, from which their pods get addresses: equal parts of the networks of the cluster.

pools = node_networks("10.244.0.0/16,fd00::/48")
pools[0].take()   # 10.244.0.0/24, then 10.244.1.0/24, ...; after the last one those that were released
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

Network = IPv4Network | IPv6Network
_SIZES: Final = {4: 24, 6: 64}  # the prefix of a node's network, as kube-controller-manager has it
_MOST_BITS: Final = 16  # of a network of the cluster, for the numbers of nodes


class NetworkPool:
    """The networks of one prefix length in a network of the cluster."""

    def __init__(self, whole: Network, length: int) -> None:
        """Raises ValueError if the network cannot be divided so."""
        if not whole.prefixlen <= length <= whole.max_prefixlen:
            raise ValueError(f"{whole} has no networks of /{length}; give nodes a larger number")
        if length - whole.prefixlen > _MOST_BITS:
            raise ValueError(
                f"{whole} has more than {2**_MOST_BITS} networks of /{length}; give nodes a smaller number"
            )
        self._whole, self._length = whole, length
        self._size = whole.num_addresses >> (length - whole.prefixlen)
        self._count = 1 << (length - whole.prefixlen)
        self._used: set[int] = set()
        self._next = 0

    def take(self) -> str | None:
        """The next free network; None if all are in use."""
        if len(self._used) >= self._count:
            return None
        while self._next in self._used:
            self._next = (self._next + 1) % self._count
        taken, self._next = self._next, (self._next + 1) % self._count
        self._used.add(taken)
        address = self._whole.network_address + taken * self._size
        return f"{address}/{self._length}"

    def occupy(self, network: str) -> None:
        """Do not give out what overlaps with this network, of a node or of Services."""
        self._used.update(self._numbers(network))

    def release(self, network: str) -> None:
        self._used.difference_update(self._numbers(network))

    def _numbers(self, network: str) -> Iterable[int]:
        try:
            found = ip_network(network, strict=False)
        except ValueError:
            return ()
        if found.version != self._whole.version or not found.overlaps(self._whole):
            return ()
        start = int(self._whole.network_address)
        first = max(int(found.network_address) - start, 0) // self._size
        last = (int(found.broadcast_address) - start) // self._size
        return range(first, min(last, self._count - 1) + 1)


def node_networks(cluster: str, length: int = 0, of_ipv4: int = 0, of_ipv6: int = 0) -> list[NetworkPool]:
    """Pools for the networks of a cluster, at most one of each address family; the lengths are those of flags, or 0.

    Raises ValueError.
    """
    wholes = []
    for text in filter(None, (part.strip() for part in cluster.split(","))):
        try:
            wholes.append(ip_network(text, strict=False))
        except ValueError:
            raise ValueError(f"{text!r} is not a network; write one such as 10.244.0.0/16") from None
    if not wholes:
        raise ValueError("is empty; write a network such as 10.244.0.0/16")
    versions = [one.version for one in wholes]
    if len(set(versions)) < len(versions):
        raise ValueError("has two networks of one address family; write at most one of each")
    given = {4: of_ipv4, 6: of_ipv6}
    if length and (len(wholes) > 1 or of_ipv4 or of_ipv6):
        raise ValueError(
            "--node-cidr-mask-size is for one address family; use the flags of each family instead"
        )
    for version, one in given.items():
        if one and version not in versions:
            raise ValueError(f"has no IPv{version} network; leave --node-cidr-mask-size-ipv{version} out")
    return [NetworkPool(one, length or given[one.version] or _SIZES[one.version]) for one in wholes]
