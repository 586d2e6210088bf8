"""The ranges that services are allocated from: addresses of a network, and node ports.

A pool knows its range and the order in which to try, not what is allocated (see `allocated`). It tries items in
ascending order, so that an item just released is the last to be allocated again. The lower part of a network comes
last, as in Kubernetes, because it is meant for static ClusterIPs.

    AddressPool("10.0.0.0/24")   10.0.0.17 to 10.0.0.254, then 10.0.0.2 to 10.0.0.16; 10.0.0.1 is that of the API server
    PortPool(30000, 32767)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator

from actors.kinds.validation import Address, parse_ip

IsFree = Callable[[str], bool]

# Addresses for static assignment: a sixteenth of the network, within these bounds.
MIN_STATIC, MAX_STATIC = 16, 256
LARGEST_IPV6_RANGE = 65536


class NotInRange(ValueError):
    """The requested item is outside the range of the pool."""


class AddressPool:
    def __init__(self, network: str) -> None:
        self._network = ipaddress.ip_network(network, strict=False)
        self.family = f"IPv{self._network.version}"
        size = self._network.num_addresses
        broadcast = 1 if self._network.version == 4 else 0
        self._last = (size if broadcast else min(size, LARGEST_IPV6_RANGE)) - 1 - broadcast
        static = 0 if size <= MIN_STATIC else min(max(MIN_STATIC, size // 16), MAX_STATIC)
        self._cursor = _Cursor(first=2, start=static + 1, last=self._last)

    def check(self, text: str) -> str:
        """The canonical text of the address; raises NotInRange."""
        address = parse_ip(text)
        if address is None or address not in self._network or not 1 <= self._offset(address) <= self._last:
            raise NotInRange(
                f"the provided IP ({text}) is not in the valid range. "
                f"The range of valid IPs is {self._network}"
            )
        return str(address)

    def next(self, is_free: IsFree) -> str | None:
        return self._cursor.next(lambda number: str(self._network[number]), is_free)

    def _offset(self, address: Address) -> int:
        return int(address) - int(self._network.network_address)


class PortPool:
    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._cursor = _Cursor(first=first, start=first, last=last)

    def check(self, port: int) -> str:
        if not self._first <= port <= self._last:
            raise NotInRange(
                "provided port is not in the valid range. "
                f"The range of valid ports is {self._first}-{self._last}"
            )
        return str(port)

    def next(self, is_free: IsFree) -> int | None:
        found = self._cursor.next(str, is_free)
        return None if found is None else int(found)


class _Cursor:
    """Tries numbers from the last allocated one on; those before `start` come last."""

    def __init__(self, *, first: int, start: int, last: int) -> None:
        self._first, self._start, self._last = first, max(first, start), last
        self._next = self._start

    def next(self, text_of: Callable[[int], str], is_free: IsFree) -> str | None:
        for number in self._order():
            item = text_of(number)
            if is_free(item):
                self._next = number + 1
                return item
        return None

    def _order(self) -> Iterator[int]:
        here = max(self._next, self._start)
        yield from range(here, self._last + 1)
        yield from range(self._start, min(here, self._last + 1))
        yield from range(self._first, min(self._start, self._last + 1))
