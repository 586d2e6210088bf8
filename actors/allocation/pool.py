"""Pools that services are allocated from: addresses of a network, ports of every node.

A pool knows its range and in which order to try, not what is allocated: that is in `allocated`. Free ones are found
one after the other, so that one just released is the last to be allocated again. The first part of a network is
tried last: people who choose an address themselves choose a low one.

    AddressPool("10.0.0.0/24")   10.0.0.17 to 10.0.0.254, then 10.0.0.2 to 10.0.0.16; 10.0.0.1 is the API's own
    PortPool(30000, 32767)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator

from actors.kinds.validation.checks import Address, parse_ip

IsFree = Callable[[str], bool]

# Addresses kept for people: a sixteenth of the network, within these bounds.
FEWEST_KEPT, MOST_KEPT = 16, 256
LARGEST_IPV6_RANGE = 65536


class NotInRange(ValueError):
    """What a client requests is outside the range of the pool."""


class AddressPool:
    def __init__(self, network: str) -> None:
        self._network = ipaddress.ip_network(network, strict=False)
        self.family = f"IPv{self._network.version}"
        size = self._network.num_addresses
        broadcast = 1 if self._network.version == 4 else 0
        self._last = (size if broadcast else min(size, LARGEST_IPV6_RANGE)) - 1 - broadcast
        kept = 0 if size <= FEWEST_KEPT else min(max(FEWEST_KEPT, size // 16), MOST_KEPT)
        self._walk = _Walk(first=2, start=kept + 1, last=self._last)

    def check(self, text: str) -> str:
        """The address as it is kept, if it is one of these."""
        address = parse_ip(text)
        if address is None or address not in self._network or not 1 <= self._place(address) <= self._last:
            raise NotInRange(
                f"the provided IP ({text}) is not in the valid range. "
                f"The range of valid IPs is {self._network}"
            )
        return str(address)

    def next(self, is_free: IsFree) -> str | None:
        return self._walk.next(lambda place: str(self._network[place]), is_free)

    def _place(self, address: Address) -> int:
        return int(address) - int(self._network.network_address)


class PortPool:
    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._walk = _Walk(first=first, start=first, last=last)

    def check(self, port: int) -> str:
        if not self._first <= port <= self._last:
            raise NotInRange(
                "provided port is not in the valid range. "
                f"The range of valid ports is {self._first}-{self._last}"
            )
        return str(port)

    def next(self, is_free: IsFree) -> int | None:
        found = self._walk.next(str, is_free)
        return None if found is None else int(found)


class _Walk:
    """Goes on from where it last found something; the part before `start` comes after everything else."""

    def __init__(self, *, first: int, start: int, last: int) -> None:
        self._first, self._start, self._last = first, max(first, start), last
        self._next = self._start

    def next(self, shown: Callable[[int], str], is_free: IsFree) -> str | None:
        for place in self._order():
            item = shown(place)
            if is_free(item):
                self._next = place + 1
                return item
        return None

    def _order(self) -> Iterator[int]:
        here = max(self._next, self._start)
        yield from range(here, self._last + 1)
        yield from range(self._start, min(here, self._last + 1))
        yield from range(self._first, min(self._start, self._last + 1))
