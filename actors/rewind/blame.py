"""Who set each field of an object, when, and with which version and manager.

The versions of the object are read from the oldest one that is kept to the one asked for. Next to the object is a tree
of owners: a number is the version that set everything below it.

    1 create   {"data": {"a": "1", "b": "2"}}        owners 1
    5 update   {"data": {"a": "1", "b": "3"}}        owners {"data": {"a": 1, "b": 5}}

Equal parts keep their owners without a look inside, so a version costs about as much as what it changed. Items of lists
are matched like those of a difference (`difference`): by a merge key where they have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from actors.rewind.difference import below, item_path, merge_key
from actors.rewind.json_patch import pointer
from actors.rewind.steps import Steps, Work
from actors.rewind.versions import LINKS, SLICE, SLICE_BYTES, link_at
from journal import keys, records
from journal.errors import Damaged
from journal.log import Journal
from journal.records import Event
from journal.view import View

BATCH_BYTES = 32 * 1024  # parsed without a pause: about half a millisecond

MIN_PART = 256  # bytes of a part that is worth to be cut out
_CUT = -(1 << 53) - 1  # stands for such a part

Owners = Any  # an offset, or a dict or list of Owners like the object
# They change with every write, and say themselves who wrote them.
_IGNORED = ("managedFields", "resourceVersion")


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


class _Walk:
    """The object and its owners after the versions so far.

    Most writes change one part of an object, its status or its metadata. The bytes of the other parts are those of the
    version before, so they are cut out before the rest is parsed.
    """

    def __init__(self) -> None:
        self.object: Any = None
        self.owners: Owners = 0
        self._parts: dict[str, bytes] = {}  # of the object, as they are in its bytes: "spec":{...}

    def add(self, events: list[Event]) -> None:
        for event in events:
            document = self._parsed(event.body)
            metadata = document["metadata"]
            for name in _IGNORED:
                metadata.pop(name, None)
            if self.object is None:
                self.owners = event.offset
            else:
                self.owners = owners_after(self.object, self.owners, document, event.offset)
                self._keep_parts(document)
            self.object = document

    def _parsed(self, body: bytes) -> Any:
        """The object. Parts that did not change are those of the version before."""
        rest, cut = body, []
        for name, part in self._parts.items():
            shorter = rest.replace(part, b'"%b":%d' % (name.encode(), _CUT), 1)
            if shorter is not rest and len(shorter) != len(rest):
                rest = shorter
                cut.append(name)
        document = orjson.loads(rest)
        for name in cut:
            if document.get(name) != _CUT:  # the same bytes were first found inside another part
                return orjson.loads(body)
            document[name] = self.object[name]
        return document

    def _keep_parts(self, document: Any) -> None:
        """Cut out what did not change with this version, as long as it does not change."""
        before, kept = self.object, self._parts
        for name in [name for name in kept if document.get(name) is not before[name]]:
            del kept[name]
        for name, value in document.items():
            if name in kept:
                continue
            if name != "metadata" and isinstance(value, (dict, list)) and before.get(name) == value:
                part = orjson.dumps({name: value})[1:-1]
                if len(part) > MIN_PART:
                    kept[name] = part


def blame(journal: Journal, last: Event) -> Steps[Blame]:
    """The fields of an object at one of its events. `last` must not have removed the object."""
    key = keys.of_object(last.type_id, last.namespace, last.name)
    chain = yield from _chain(journal, key, last)
    walk = _Walk()
    position = 0
    oldest = 0
    while position < len(chain):
        events = _read(journal, key, chain[position : position + SLICE])
        if position == 0 or (events and events[0].offset != chain[position]):
            # Retention may have removed versions meanwhile: what is left starts later.
            oldest = events[0].offset if events and events[0].previous else 0
        position += max(len(events), 1)
        for some in _batches(events):
            yield Work(partial(walk.add, some), sum(len(event.body) for event in some))
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
    """The offsets of an object's versions since it was created, or as far back as they are kept, ascending."""
    chain = [last.offset]
    previous = last.previous
    while previous:
        with journal.read() as view:
            for _ in range(LINKS):
                found = _previous(view, key, previous) if previous else None
                if found is None:
                    previous = 0
                    break
                chain.append(previous)
                previous = found
        yield Work(lambda: None)
    chain.reverse()
    return chain


def _previous(view: View, key: bytes, offset: int) -> int | None:
    """The version before a version, 0 for the first; None if retention has removed the version itself."""
    link = link_at(view, int.from_bytes(key[:2], "big"), offset)
    if link is not None and link.key != key:
        raise Damaged(f"event {offset} is not the one that {records.printable(key)} had")
    return None if link is None else link.previous


def _read(journal: Journal, key: bytes, offsets: list[int]) -> list[Event]:
    """The events at some offsets, without those that are gone, up to a number of bytes."""
    found: list[Event] = []
    size = 0
    with journal.read() as view:
        for offset in offsets:
            event = view.event(offset)
            if event is None:
                found.clear()
                continue
            found.append(event)
            size += len(event.body)
            if size > SLICE_BYTES:
                break
    return found


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


def owners_after(before: Any, owners: Owners, after: Any, version: int) -> Owners:
    """The owners of a value that a version changed; `before` and `owners` are those of the version before."""
    if not after:
        return version
    if isinstance(after, dict) and isinstance(before, dict):
        result: dict[str, Owners] = {}
        whole = isinstance(owners, int)
        for key, value in after.items():
            if key not in before:
                result[key] = version
                continue
            old, owner = before[key], owners if whole else owners[key]
            if old is value or (old == value and type(old) is type(value)):
                result[key] = owner
            else:
                result[key] = owners_after(old, owner, value, version)
        return result
    if isinstance(after, list) and isinstance(before, list):
        return _owners_of_items(before, owners, after, version)
    return version


def _owners_of_items(before: list[Any], owners: Owners, after: list[Any], version: int) -> Owners:
    matched = _matched(before, after)
    result: list[Owners] = []
    for position, value in enumerate(after):
        place = matched.get(position)
        if place is None:
            result.append(version)
            continue
        old, owner = before[place], owners if isinstance(owners, int) else owners[place]
        unchanged = old == value and type(old) is type(value)
        result.append(owner if unchanged else owners_after(old, owner, value, version))
    return result


def _matched(before: list[Any], after: list[Any]) -> dict[int, int]:
    """The position before of each item after that was there."""
    key = merge_key(before, after)
    if key:
        places = {item[key]: place for place, item in enumerate(before)}
        return {at: places[item[key]] for at, item in enumerate(after) if item[key] in places}
    if any(isinstance(item, (dict, list)) for item in (*before, *after)):
        return {at: at for at in range(min(len(before), len(after)))}
    values = {(type(item), item): place for place, item in enumerate(before)}
    return {at: values[type(item), item] for at, item in enumerate(after) if (type(item), item) in values}


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
