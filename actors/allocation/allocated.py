"""The ClusterIPs and node ports that are allocated, according to the services in the journal.

The services are the only record of allocations. The journal is read once, before the first lookup; after that, the feed
keeps this up to date. Items that are reserved for a write count as allocated until the write is complete, so that two
writes of one batch never get the same address.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from actors.kinds.core.services.traits import HEADLESS, node_ports
from actors.messages import Object
from actors.store.document import decode
from actors.store.feed import Feed
from journal.log import Journal
from journal.records import Event

Key = tuple[str, str]


def items_of(service: Object) -> frozenset[str]:
    """All addresses and ports that are allocated to a service, as text."""
    spec = service["spec"]
    items = {str(ip) for ip in spec.get("clusterIPs", ()) if ip != HEADLESS}
    items |= {str(port) for port in node_ports(spec)}
    if spec.get("healthCheckNodePort"):
        items.add(str(spec["healthCheckNodePort"]))
    return frozenset(items)


# nodePort and healthCheckNodePort. The only numbers of these names are in the spec, as is the only list of the other:
# labels, annotations and selectors have strings, and strings escape quotes.
_PORT = re.compile(rb'odePort":(-?[1-9][0-9]*)')
_ADDRESSES = re.compile(rb'"clusterIPs":\[([^]]*)\]')


def items_in(body: bytes) -> frozenset[str]:
    """`items_of` the service in this JSON text. It is not parsed, which would take several times as long."""
    items = {port.decode() for port in set(_PORT.findall(body))}
    if found := _ADDRESSES.search(body):
        items |= {ip for ip in decode(b"[%b]" % found[1]) if ip != HEADLESS}
    return frozenset(items)


class AllocatedItems:
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

    def reserve(self, items: Iterable[str]) -> Callable[[bool], None]:
        """Reserve items for a write; the caller calls the returned function once the write is durable or failed."""
        reserved = tuple(items)
        self._reserved.update(reserved)

        def release(_: bool) -> None:
            self._reserved.subtract(reserved)

        return release

    def statistics(self) -> tuple[int, int]:
        """How many items are allocated, and how many are reserved."""
        return self._counts.total(), self._reserved.total()

    def read_once(self) -> None:
        """Read the journal, unless it was read before. Not in a thread; after it, `is_free` may be called in one."""
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
