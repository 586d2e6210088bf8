"""Writes what was decided into a new journal.

Versions never fall: when the newest version that is known to have existed is lost, some object gets a version above
it. An object whose newest version is lost gets such a new version with its older content, so that clients that have
seen the lost one notice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from journal import keys, records
from journal.log import Journal
from journal.pages.layout import PageFile
from journal.records import Event
from journal.recovery.decide import Kept, Plan

VERB, USER = "recover", "rewound journal recover"  # of events that the recovery makes itself

# One durable transaction each: large enough that the fsync costs little, small enough for any memory.
BATCH, BATCH_BYTES = 1000, 4 << 20


def write_meta(journal: Journal, types: dict[str, int], floor: int) -> None:
    """The numbers of the types as they were, and the floor."""

    changes = {keys.TYPE_PREFIX + name.encode(): keys.pack_type(number) for name, number in types.items()}
    changes[keys.FLOOR] = keys.pack_offset(floor)
    meta = journal.environment.databases.meta
    journal.environment.write(lambda txn: records.put_meta(txn, meta, changes))


def write_events(journal: Journal, file: PageFile, plan: Plan) -> None:
    for batch in _batches(_events(file, plan), plan.floor):
        journal.append(batch, restored=batch[-1].offset <= plan.floor)


def _batches(events: Iterator[Event], floor: int) -> Iterator[list[Event]]:
    """Events in runs of bounded size, all of each on one side of the floor."""
    batch: list[Event] = []
    size = 0
    for event in events:
        if len(batch) == BATCH or size > BATCH_BYTES or (batch and batch[-1].offset <= floor < event.offset):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += len(event.body) + len(event.facts)
    if batch:
        yield batch


def _events(file: PageFile, plan: Plan) -> Iterator[Event]:
    time = 0
    newest: dict[bytes, Event] = {}  # of live objects, without contents
    for kept in plan.kept:
        event = read_event(file, kept, time)
        time = event.time
        newest.pop(kept.key, None)
        if not event.removed:
            newest[kept.key] = event._replace(facts=b"", body=b"")
        yield event
    head = max(plan.head, plan.kept[-1].offset if plan.kept else 0)
    renewed = [kept for kept in plan.renewed if kept.key in newest]
    if not renewed and plan.kept and plan.kept[-1].offset < head:
        renewed = [kept for kept in plan.kept if newest.get(kept.key) is not None][-1:]
    for number, kept in enumerate(renewed):
        yield _renewed(read_event(file, kept, time), head + 1 + number, time)
    if not renewed and (not plan.kept or plan.kept[-1].offset < head):
        yield from _marker(plan, head, time)


def read_event(file: PageFile, kept: Kept, time: int) -> Event:
    """An event as it is in the damaged file; one that only its row is left of gets the time of the one before it."""
    value = file.bytes_at(*kept.place)
    if not kept.from_row:
        event = records.decode_event(kept.offset, value)
        return event if event.time >= time else event._replace(time=time)
    _, facts, body = records.decode_row(kept.key, memoryview(value))
    namespace, name = keys.names_of(kept.key)
    type_id = int.from_bytes(kept.key[:2], "big")
    previous = max(kept.previous, 0)
    return Event(kept.offset, type_id, VERB, namespace, name, previous, False, time, USER, "", facts, body)


def _renewed(event: Event, offset: int, time: int) -> Event:
    """The same object under a new version."""
    return event._replace(
        offset=offset,
        verb=VERB,
        previous=event.offset,
        time=time,
        user=USER,
        manager="",
        body=with_version(event.body, offset),
    )


def with_version(body: bytes, offset: int) -> bytes:
    """The JSON of an object with another resourceVersion, which must be its offset."""
    document = json.loads(body)
    document["metadata"]["resourceVersion"] = str(offset)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _marker(plan: Plan, head: int, time: int) -> Iterator[Event]:
    """The removal of an object that is lost anyway: an event at a new version, when no object is left to have it."""
    for lost in plan.lost_objects[:1]:
        namespace, name = keys.names_of(lost.key)
        metadata = {"name": name, "namespace": namespace, "resourceVersion": str(head + 1)}
        body = json.dumps({"metadata": {key: value for key, value in metadata.items() if value}}).encode()
        type_id = int.from_bytes(lost.key[:2], "big")
        yield Event(head + 1, type_id, VERB, namespace, name, 0, True, time, USER, "", b"", body)
