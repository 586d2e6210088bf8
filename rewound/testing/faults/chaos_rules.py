"""The API faults of Chaos objects: while the status of one has such a fault active, its rules are in force.

The controller of chaos decides when, and writes it to the journal; every process of a server follows these writes.
Rules are named CHAOS/FAULT/RULE, which the header of a response and the metrics show. Those of `--faults` and of tests
come first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from rewound.actors.chaos.plan import TYPE_NAME
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.messages import Object
from rewound.actors.store.document import decode
from rewound.gateway.store import Store
from rewound.journal.records import Event
from rewound.testing.faults.parsing import FaultsError, faults_of
from rewound.testing.faults.rules import Faults
from rewound.testing.faults.switch import FaultSwitch

logger = logging.getLogger(__name__)


class ChaosRules:
    def __init__(self, store: Store, switch: FaultSwitch) -> None:
        self._store, self._switch = store, switch
        self._type_id: int | None = None
        self._active: dict[
            str, list[tuple[str, Object]]
        ] = {}  # by Chaos: names of faults, and their documents

    def start(self) -> None:
        self._store.registry.follow(self._kinds_changed)
        self._kinds_changed(self._store.registry.current, self._store.registry.current)

    def _kinds_changed(self, previous: Catalog, current: Catalog) -> None:
        if self._type_id is not None or current.stored_type(TYPE_NAME) is None:
            return
        journal = self._store.journal
        self._type_id = journal.type_id(TYPE_NAME)
        self._store.feed.follow(self._changed, frozenset({self._type_id}))
        with journal.read() as view:
            for _, name, row in view.rows(self._type_id, None):
                self._read(name, bytes(row.body))
        self._update()

    def _changed(self, events: Sequence[Event]) -> None:
        before = dict(self._active)
        for event in events:
            if event.type_id == self._type_id:
                self._read(event.name, None if event.removed else event.body)
        if before != self._active:
            self._update()

    def _read(self, name: str, body: bytes | None) -> None:
        faults = (decode(body).get("status") or {}).get("faults") or () if body is not None else ()
        active = [(one["name"], one["active"]["rules"]) for one in faults if "rules" in one.get("active", {})]
        if active:
            self._active[name] = active
        else:
            self._active.pop(name, None)

    def _update(self) -> None:
        found: list[Faults] = []
        for chaos, active in sorted(self._active.items()):
            for name, document in active:
                try:
                    parsed = faults_of(document)
                except FaultsError as error:
                    logger.warning("the fault %s of chaos %s cannot be used: %s", name, chaos, error)
                    continue
                rules = [replace(rule, name=f"{chaos}/{name}/{rule.name}") for rule in parsed.rules]
                found.append(Faults(rules, parsed.seed, parsed.documents))
        self._switch.set_chaos(found)
