"""The ClusterIPs and node ports that are allocated, and the ranges from which the next ones come.

The services in the journal are the only record of allocations (`AllocatedItems`). A pool knows its range and the
order in which to try, not what is allocated.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rewound.actors.kinds.core.service import HEADLESS, node_ports
from rewound.actors.kinds.validation import Address, parse_ip
from rewound.actors.messages import Object
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal
from rewound.journal.records import Event

Key = tuple[str, str]


def items_of(service: Object) -> frozenset[str]:
    """Return all addresses and ports that are allocated to a service, as text."""
    spec = service["spec"]
    items = {str(ip) for ip in spec.get("clusterIPs", ()) if ip != HEADLESS}
    items |= {str(port) for port in node_ports(spec)}
    if spec.get("healthCheckNodePort"):
        items.add(str(spec["healthCheckNodePort"]))
    return frozenset(items)


# Matches nodePort and healthCheckNodePort. Numbers with these names occur only in the spec, and so does a list named
# clusterIPs: labels, annotations and selectors have strings, in which quotes are escaped.
_PORT = re.compile(rb'odePort":(-?[1-9][0-9]*)')
_ADDRESSES = re.compile(rb'"clusterIPs":\[([^]]*)\]')


def items_in(body: bytes) -> frozenset[str]:
    """Return `items_of` the service in this JSON text without parsing it, which would take several times as long."""
    items = {port.decode() for port in set(_PORT.findall(body))}
    if found := _ADDRESSES.search(body):
        items |= {ip for ip in decode(b"[%b]" % found[1]) if ip != HEADLESS}
    return frozenset(items)


class AllocatedItems:
    """The ClusterIPs and node ports that are allocated, according to the services in the journal.

    The services are the only record of allocations. The journal is read once, before the first lookup; after that,
    the feed keeps this up to date. Items that are reserved for a write count as allocated until the write is
    complete, so that two writes of one batch never get the same address.
    """

    def __init__(self, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._type_id = journal.type_id("services")
        self._by_service: dict[
            Key, tuple[int, frozenset[str]]
        ] = {}  # with the offset of the event that wrote it
        self._counts: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()
        self._read = False
        feed.follow(self._committed, frozenset({self._type_id}))

    def is_free(self, item: str) -> bool:
        self.read_once()
        return not self._counts[item] and not self._reserved[item]

    def reserve(self, items: Iterable[str]) -> Callable[[], None]:
        """Reserve items for a write; the caller calls the returned function once the write is durable or failed."""
        reserved = tuple(items)
        self._reserved.update(reserved)

        def release() -> None:
            self._reserved.subtract(reserved)

        return release

    def statistics(self) -> tuple[int, int]:
        """How many items are allocated, and how many are reserved."""
        return self._counts.total(), self._reserved.total()

    def read_once(self) -> None:
        """Read the journal, unless it was read before. Must run in trio's thread; afterwards `is_free` may run in
        others.
        """
        if self._read:
            return
        self._read = True
        with self._journal.read() as view:
            for namespace, name, row in view.rows(self._type_id, None):
                self._record((namespace, name), row.offset, items_in(row.body))

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id and self._read:
                items = frozenset[str]() if event.removed else items_in(event.body)
                self._record((event.namespace, event.name), event.offset, items)

    def _record(self, key: Key, offset: int, items: frozenset[str]) -> None:
        known, before = self._by_service.get(key, (0, frozenset[str]()))
        if offset <= known:
            return
        self._counts.subtract(before)
        self._counts.update(items)
        if items:
            self._by_service[key] = (offset, items)
        else:
            self._by_service.pop(key, None)


IsFree = Callable[[str], bool]

# Addresses for static assignment: a sixteenth of the network, within these bounds.
MIN_STATIC, MAX_STATIC = 16, 256
LARGEST_IPV6_RANGE = 65536


class NotInRange(ValueError):
    """The requested item is outside the range of the pool."""


class AddressPool:
    """The ranges that services are allocated from: addresses of a network, and node ports.

    A pool knows its range and the order in which to try, not what is allocated (see `allocated`). It tries items in
    ascending order, so that an item just released is the last to be allocated again. The lower part of a network
    comes last, as in Kubernetes, because it is meant for static ClusterIPs. Each write chooses with its own cursor;
    the pool continues from that cursor if the write is stored, so a refused write leaves no gap.

        AddressPool("10.0.0.0/24")   10.0.0.17 to 10.0.0.254, then 10.0.0.2 to 10.0.0.16 (.1 is the API server's)
        PortPool(30000, 32767)
    """

    def __init__(self, network: str) -> None:
        self._network = ipaddress.ip_network(network, strict=False)
        self.family = f"IPv{self._network.version}"
        size = self._network.num_addresses
        broadcast = 1 if self._network.version == 4 else 0
        self._last = (size if broadcast else min(size, LARGEST_IPV6_RANGE)) - 1 - broadcast
        static = 0 if size <= MIN_STATIC else min(max(MIN_STATIC, size // 16), MAX_STATIC)
        start = max(2, static + 1)
        self._order = _Order(2, start, self._last)
        self._next = start

    def check(self, text: str) -> str:
        """Return the canonical text of the address. Raises NotInRange if the pool does not have it."""
        address = parse_ip(text)
        if address is None or address not in self._network or not 1 <= self._offset(address) <= self._last:
            raise NotInRange(
                f"the provided IP ({text}) is not in the valid range. "
                f"The range of valid IPs is {self._network}"
            )
        return str(address)

    def cursor(self) -> Cursor:
        return Cursor(self._order, self._next, lambda number: str(self._network[number]))

    def continue_from(self, cursor: Cursor) -> None:
        self._next = cursor.position

    def _offset(self, address: Address) -> int:
        return int(address) - int(self._network.network_address)


class PortPool:
    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._order = _Order(first, first, last)
        self._next = first

    def check(self, port: int) -> str:
        if not self._first <= port <= self._last:
            raise NotInRange(
                "provided port is not in the valid range. "
                f"The range of valid ports is {self._first}-{self._last}"
            )
        return str(port)

    def cursor(self) -> Cursor:
        return Cursor(self._order, self._next, str)

    def continue_from(self, cursor: Cursor) -> None:
        self._next = cursor.position


class _Order(NamedTuple):
    """The order in which to try numbers: after the last allocated one, then from `start`, then those before `start`."""

    first: int
    start: int
    last: int

    def after(self, position: int) -> Iterator[int]:
        here = max(position, self.start)
        yield from range(here, self.last + 1)
        yield from range(self.start, min(here, self.last + 1))
        yield from range(self.first, min(self.start, self.last + 1))


class Cursor:
    """The position from which one write chooses the items of a pool."""

    def __init__(self, order: _Order, position: int, text_of: Callable[[int], str]) -> None:
        self._order, self._text_of = order, text_of
        self.position = position  # the number to try next

    def next(self, is_free: IsFree) -> str | None:
        for number in self._order.after(self.position):
            item = self._text_of(number)
            if is_free(item):
                self.position = number + 1
                return item
        return None
