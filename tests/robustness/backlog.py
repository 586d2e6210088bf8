"""Writes a journal with many old events of otherwise unused objects, for retention and snapshots to process.

The test writes it into a folder before the first start, with old timestamps, so that a server with a short
retention compacts all of it at once.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from rewound.actors.selectors.facts import pack_facts
from rewound.journal import Event, Journal

AGE = 3600_000_000  # microseconds: an hour before now
BATCH = 2000
NAMESPACE, TYPE = "default", "secrets"  # a type that the traffic does not use


def write_backlog(path: Path, *, events: int, objects: int) -> None:
    """`events` events over `objects` secrets, round after round over all of them."""
    journal = Journal.open(path)
    try:
        type_id, began = journal.register_type(TYPE), int(time.time() * 1_000_000) - AGE
        offsets = range(1, events + 1)
        for first in range(0, events, BATCH):
            batch = offsets[first : first + BATCH]
            journal.append([_event(type_id, offset, objects, began) for offset in batch])
    finally:
        journal.close()


def _event(type_id: int, offset: int, objects: int, began: int) -> Event:
    name = f"old-{(offset - 1) % objects}"
    uid = f"00000000-0000-4000-8000-{(offset - 1) % objects:012d}"
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid,
        "resourceVersion": str(offset),
        "creationTimestamp": "2020-01-01T00:00:00Z",
    }
    previous = max(offset - objects, 0)
    fields = {"metadata.name": name, "metadata.namespace": NAMESPACE, "type": "Opaque"}
    return Event(
        offset=offset,
        type_id=type_id,
        verb="update" if previous else "create",
        namespace=NAMESPACE,
        name=name,
        previous=previous,
        removed=False,
        time=began + offset,
        user="past",
        manager="past",
        facts=pack_facts({}, fields, uid, ()),
        body=json.dumps({"metadata": metadata, "data": {"round": "bm93"}, "type": "Opaque"}).encode(),
    )
