"""Which addresses and node ports are allocated: read from the services in the journal and kept in step with it.

Nothing of this is stored anywhere else: what is allocated to a service is written in the service. The journal is read
once, before the first lookup, and followed from there. What is reserved for a write that is not yet durable counts
as allocated until the write is complete, so that two writes of one batch never get the same address.
"""

from __future__ import annotations

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
    """Everything allocated to a service, addresses and ports alike, as text."""
    spec = service["spec"]
    items = {str(ip) for ip in spec.get("clusterIPs", ()) if ip != HEADLESS}
    items |= {str(port) for port in node_ports(spec)}
    if spec.get("healthCheckNodePort"):
        items.add(str(spec["healthCheckNodePort"]))
    return frozenset(items)


class AllocatedItems:
    def __init__(self, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._type_id = journal.type_id("services")
        self._of: dict[Key, tuple[int, frozenset[str]]] = {}  # with the offset of the event that wrote it
        self._counts: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()
        self._read = False
        feed.follow(self._committed)

    def is_free(self, item: str) -> bool:
        self._read_once()
        return not self._counts[item] and not self._reserved[item]

    def reserve(self, items: Iterable[str]) -> Callable[[bool], None]:
        """Reserve these for a write; the caller calls what is returned once the write is durable or lost."""
        reserved = tuple(items)
        self._reserved.update(reserved)

        def release(_: bool) -> None:
            self._reserved.subtract(reserved)

        return release

    def statistics(self) -> tuple[int, int]:
        """How many items are allocated, and how many are reserved."""
        return self._counts.total(), self._reserved.total()

    def _read_once(self) -> None:
        if self._read:
            return
        self._read = True
        with self._journal.read() as view:
            for namespace, name, row in view.rows(self._type_id, None):
                self._note((namespace, name), row.offset, items_of(decode(row.body)))

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id and self._read:
                items = frozenset[str]() if event.removed else items_of(decode(event.body))
                self._note((event.namespace, event.name), event.offset, items)

    def _note(self, key: Key, offset: int, items: frozenset[str]) -> None:
        known, before = self._of.get(key, (0, frozenset[str]()))
        if offset <= known:
            return
        self._counts.subtract(before)
        self._counts.update(items)
        if items:
            self._of[key] = (offset, items)
        else:
            self._of.pop(key, None)
