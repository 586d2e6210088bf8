"""The ClusterIPs and node ports that are allocated, and the ranges from which the next ones come.

The services in the journal are the record of allocations, and with the feature MultiCIDRServiceAllocator also the
IPAddress objects (`AllocatedItems`). A pool knows its range and the order in which to try, not what is allocated. The
ranges of ClusterIPs are those of the flags, or those of the ServiceCIDR objects (`ServiceCidrs`).
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rewound.actors.kinds.core.service import HEADLESS, node_ports
from rewound.actors.kinds.validation import Address, parse_ip
from rewound.actors.messages import Object
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
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
    return frozenset((*(port.decode() for port in set(_PORT.findall(body))), *addresses_in(body)))


def addresses_in(body: bytes) -> list[str]:
    """Return the cluster IPs of the service in this JSON text."""
    found = _ADDRESSES.search(body)
    return [ip for ip in decode(b"[%b]" % found[1]) if ip != HEADLESS] if found else []


class AllocatedItems:
    """The ClusterIPs and node ports that are allocated, according to the objects in the journal.

    The journal is read once, before the first lookup; after that, the feed keeps this up to date. Items that are
    reserved for a write count as allocated until the write is complete, so that two writes of one batch never get the
    same address.
    """

    def __init__(self, journal: Journal, feed: Feed, address_type: str = "") -> None:
        """`address_type` names the type of IPAddress objects, each of which takes the address that is its name."""
        self._journal = journal
        self._type_id = journal.type_id("services")
        self._address_type = journal.type_id(address_type) if address_type else 0
        self._addresses: set[str] = set()  # names of IPAddress objects
        self._by_service: dict[
            Key, tuple[int, frozenset[str]]
        ] = {}  # with the offset of the event that wrote it
        self._counts: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()
        self._read = False
        feed.follow(self._committed, frozenset({self._type_id, self._address_type} - {0}))

    def is_free(self, item: str) -> bool:
        self.read_once()
        return not self._counts[item] and not self._reserved[item] and item not in self._addresses

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
            rows = list(view.rows(self._type_id, None))
            offsets = {(namespace, name): row.offset for namespace, name, row in rows}

            def take(namespace: str, name: str, body: bytes) -> None:
                self._record((namespace, name), offsets[namespace, name], items_in(body))

            each_usable("services", rows, take)
            if self._address_type:
                self._addresses.update(name for _, name, _ in view.rows(self._address_type, None))

    def _committed(self, events: Sequence[Event]) -> None:
        if not self._read:
            return
        for event in events:
            if event.type_id == self._type_id:
                items = frozenset[str]() if event.removed else items_in(event.body)
                self._record((event.namespace, event.name), event.offset, items)
            elif event.type_id == self._address_type:
                if event.removed:
                    self._addresses.discard(event.name)
                else:
                    self._addresses.add(event.name)

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

    The pool of a ServiceCIDR is `whole`: any of them may be that of the API server, and large ones have no end.
    """

    def __init__(self, network: str, *, whole: bool = False) -> None:
        self._network = ipaddress.ip_network(network, strict=False)
        self.family = f"IPv{self._network.version}"
        self.network_address = str(self._network.network_address)
        size = self._network.num_addresses
        broadcast = 1 if self._network.version == 4 else 0
        used = size if broadcast or whole else min(size, LARGEST_IPV6_RANGE)
        self._last = used - 1 - broadcast
        static = 0 if size <= MIN_STATIC else min(max(MIN_STATIC, size // 16), MAX_STATIC)
        first = 1 if whole else 2
        start = max(first, static + 1)
        self._order = _Order(first, start, self._last)
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


DEFAULT_CIDR: Final = "kubernetes"  # the name of the ServiceCIDR with the ranges of the flags


class FixedRanges:
    """The pools of the ranges that the flags give, one for each family."""

    def __init__(self, networks: Sequence[str]) -> None:
        pools = [AddressPool(network) for network in networks]
        self._pools = {pool.family: (pool,) for pool in pools}
        self.families = tuple(self._pools)

    def pools(self, family: str) -> Sequence[AddressPool]:
        return self._pools[family]

    def read_once(self) -> None:
        """Do nothing: there is nothing to read."""


class ServiceCidrs:
    """The pools of all ready ServiceCIDRs; the flags say which families there are.

    Like `AllocatedItems`, it reads the journal once and then follows the feed. A ServiceCIDR without the condition
    Ready is ready, because no controller may run; one that is being deleted is not.
    """

    def __init__(self, networks: Sequence[str], journal: Journal, feed: Feed, type_name: str) -> None:
        self.families = tuple(AddressPool(network).family for network in networks)
        self._journal = journal
        self._type_id = journal.type_id(type_name)
        self._ready: dict[str, list[str]] = {}  # networks, by the name of the ServiceCIDR
        self._pools: dict[str, AddressPool] = {}  # by network: ServiceCIDRs with the same share its pool
        self._read = False
        feed.follow(self._committed, frozenset({self._type_id}))

    def pools(self, family: str) -> Sequence[AddressPool]:
        """The pools of a family; that of the default ServiceCIDR first."""
        self.read_once()
        networks = (one for name in sorted(self._ready, key=_default_first) for one in self._ready[name])
        pools = (self._pools[network] for network in dict.fromkeys(networks))
        return [pool for pool in pools if pool.family == family]

    def read_once(self) -> None:
        if self._read:
            return
        self._read = True
        with self._journal.read() as view:
            rows = view.rows(self._type_id, None)
            each_usable("servicecidrs", rows, lambda _, name, body: self._record(name, body))

    def _committed(self, events: Sequence[Event]) -> None:
        if not self._read:
            return
        for event in events:
            if event.type_id == self._type_id:
                self._ready.pop(event.name, None)
                if not event.removed:
                    self._record(event.name, event.body)

    def _record(self, name: str, body: bytes) -> None:
        found = decode(body)
        if is_ready(found):
            self._ready[name] = found["spec"]["cidrs"]
            for network in found["spec"]["cidrs"]:
                if network not in self._pools:
                    self._pools[network] = AddressPool(network, whole=True)


def is_ready(service_cidr: Object) -> bool:
    conditions = service_cidr["status"].get("conditions", ())
    is_false = any(one["type"] == "Ready" and one["status"] != "True" for one in conditions)
    return not is_false and "deletionTimestamp" not in service_cidr["metadata"]


def _default_first(name: str) -> tuple[bool, str]:
    return name != DEFAULT_CIDR, name
