"""Who holds what: the addresses and node ports of every service, read from the journal and kept in step.

Nothing of this is stored anywhere else: what a service holds is written in the service. The journal is read once,
before the first question, and followed from there. What was promised to a write that is not yet durable is
counted beside it until the write is settled, so two writes of one batch never get the same thing.
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


def held_by(service: Object) -> frozenset[str]:
    """Everything a service holds, addresses and ports alike, as text."""
    spec = service["spec"]
    items = {str(ip) for ip in spec.get("clusterIPs", ()) if ip != HEADLESS}
    items |= {str(port) for port in node_ports(spec)}
    if spec.get("healthCheckNodePort"):
        items.add(str(spec["healthCheckNodePort"]))
    return frozenset(items)


class Holdings:
    def __init__(self, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._type_id = journal.type_id("services")
        self._of: dict[Key, tuple[int, frozenset[str]]] = {}  # with the offset that said so
        self._holders: Counter[str] = Counter()
        self._promised: Counter[str] = Counter()
        self._read = False
        feed.follow(self._committed)

    def is_free(self, item: str) -> bool:
        self._read_once()
        return not self._holders[item] and not self._promised[item]

    def promise(self, items: Iterable[str]) -> Callable[[bool], None]:
        """Keep these for a write. What is returned is called when it is durable, or never will be."""
        kept = tuple(items)
        self._promised.update(kept)

        def settled(_: bool) -> None:
            self._promised.subtract(kept)

        return settled

    def statistics(self) -> tuple[int, int]:
        """How many things are held, and how many are promised."""
        return self._holders.total(), self._promised.total()

    def _read_once(self) -> None:
        if self._read:
            return
        self._read = True
        with self._journal.read() as view:
            for namespace, name, row in view.rows(self._type_id, None):
                self._note((namespace, name), row.offset, held_by(decode(row.body)))

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id and self._read:
                items = frozenset[str]() if event.removed else held_by(decode(event.body))
                self._note((event.namespace, event.name), event.offset, items)

    def _note(self, key: Key, offset: int, items: frozenset[str]) -> None:
        known, before = self._of.get(key, (0, frozenset[str]()))
        if offset <= known:
            return
        self._holders.subtract(before)
        self._holders.update(items)
        if items:
            self._of[key] = (offset, items)
        else:
            self._of.pop(key, None)
