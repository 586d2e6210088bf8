"""Who set each field of an object, when, and with which version and manager.

The versions of the object are read from the oldest one that is kept to the one asked for; `owner_walk` keeps the
owners of its fields (`owners`). A version costs about as much as what it changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from actors.rewind.difference import below, item_path, merge_key
from actors.rewind.json_patch import pointer
from actors.rewind.owner_walk import OwnerWalk
from actors.rewind.owners import Owners
from actors.rewind.steps import Steps, Work
from actors.rewind.versions import LINKS, SLICE, SLICE_BYTES, link_at
from journal import keys, records
from journal.errors import Damaged
from journal.log import Journal
from journal.records import Event
from journal.view import View

BATCH_BYTES = 32 * 1024  # parsed without a pause: about half a millisecond


@dataclass(frozen=True, slots=True)
class FieldOwner:
    field: str  # as a difference shows it: spec.containers[name=web].image
    pointer: str  # as a JSON pointer
    value: Any
    version: int


@dataclass(frozen=True, slots=True)
class Blame:
    fields: list[FieldOwner]
    events: dict[int, Event]  # those that own a field, by offset, without their contents
    oldest: int  # the oldest version that was read, if retention has removed those before it; else 0


def blame(journal: Journal, last: Event) -> Steps[Blame]:
    """The fields of an object at one of its events. `last` must not have removed the object."""
    key = keys.of_object(last.type_id, last.namespace, last.name)
    chain = yield from _chain(journal, key, last)
    walk = OwnerWalk()
    position = oldest = previous = 0
    while position < len(chain):
        some = chain[position : position + SLICE]
        events = _read(journal, last, some)
        if not events:
            position += len(some)
            continue
        position += some.index(events[-1].offset) + 1
        if events[0].offset != some[0] or not previous:
            # The first ones; or retention has removed versions meanwhile: what is left starts later.
            walk, oldest = OwnerWalk(), events[0].offset if events[0].previous else 0
            previous = events[0].previous
        previous = _check_chain(events, previous)
        for batch in _batches(events):
            yield Work(partial(walk.add, batch), sum(len(event.body) for event in batch))
    fields = yield Work(lambda: list(_fields(walk.object, walk.owners)), len(last.body))
    owning = yield from _owning(journal, last, sorted({field.version for field in fields}))
    return Blame([field for field in fields if field.version in owning], owning, oldest)


def _owning(journal: Journal, last: Event, offsets: list[int]) -> Steps[dict[int, Event]]:
    """The events at some offsets, without their contents; the last one is there even if retention has passed it."""
    found = {last.offset: last._replace(body=b"", facts=b"")}
    position = 0
    while position < len(offsets):
        size = 0
        with journal.read() as view:
            for offset in offsets[position : position + SLICE]:
                event = view.event(offset)
                position += 1
                if event is not None:
                    found[offset] = event._replace(body=b"", facts=b"")
                    size += len(event.body)
                    if size > SLICE_BYTES:
                        break
        yield Work(lambda: None)
    return found


def _chain(journal: Journal, key: bytes, last: Event) -> Steps[list[int]]:
    """The offsets of an object's versions since it was created, or as far back as they are kept, ascending.

    Only the checksum of the oldest index entry is verified here: the events themselves say which one was before each.
    """
    chain = [last.offset]
    previous = last.previous
    while previous:
        with journal.read() as view:
            previous = _add_previous(view, last.type_id, chain, previous)
            if not previous and len(chain) > 1:
                _check_link(view, key, chain[-1])
        yield Work(lambda: None)
    chain.reverse()
    return chain


def _add_previous(view: View, type_id: int, chain: list[int], offset: int) -> int:
    """Add a version and some of those before it; the next one, 0 after the first that is kept."""
    get, database, packed = view.txn.get, view.databases.by_type, keys.pack_type(type_id)
    for _ in range(LINKS):
        link = get(packed + keys.pack_offset(offset), None, database)
        if link is None:
            return 0
        chain.append(offset)
        offset = records.previous_in_link(link)
        if not offset:
            return 0
    return offset


def _check_link(view: View, key: bytes, offset: int) -> None:
    link = link_at(view, int.from_bytes(key[:2], "big"), offset)
    if link is None or link.key != key:
        raise Damaged(f"event {offset} is not the one that {records.printable(key)} had")


def _read(journal: Journal, last: Event, offsets: list[int]) -> list[Event]:
    """The events of an object at some offsets, without those that are gone, up to a number of bytes."""
    with journal.read() as view:
        events = view.events_at(offsets, SLICE_BYTES)
    names = last[1:2] + last[3:5]
    for event in events:
        if event[1:2] + event[3:5] != names:
            key = keys.of_object(last.type_id, last.namespace, last.name)
            raise Damaged(f"event {event.offset} is not the one that {records.printable(key)} had")
    return events


def _check_chain(events: list[Event], previous: int) -> int:
    """Each event must follow the one before it, the first one `previous`. The offset of the last."""
    for event in events:
        if event.previous != previous:
            raise Damaged(f"event {event.offset} follows {event.previous}, its index entry says {previous}")
        previous = event.offset
    return previous


def _batches(events: list[Event]) -> Iterator[list[Event]]:
    batch: list[Event] = []
    size = 0
    for event in events:
        if batch and size + len(event.body) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += len(event.body)
    if batch:
        yield batch


def _fields(document: Any, owners: Owners) -> Iterator[FieldOwner]:
    """Every field that has no fields of its own, with its owner, in the order of the document."""
    left: list[tuple[str, str, Any, Owners]] = [("", "", document, owners)]
    while left:
        path, place, value, owner = left.pop()
        whole = isinstance(owner, int)
        if isinstance(value, dict) and value:
            below_it = [
                (below(path, key), pointer(place, key), one, owner if whole else owner[key])
                for key, one in value.items()
            ]
        elif isinstance(value, list) and value:
            key = merge_key(value, value)
            below_it = [
                (item_path(path, key, at, one), f"{place}/{at}", one, owner if whole else owner[at])
                for at, one in enumerate(value)
            ]
        else:
            yield FieldOwner(path, place, value, owner)
            continue
        left.extend(reversed(below_it))
