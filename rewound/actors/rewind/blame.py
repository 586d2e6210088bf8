"""Who set each field of an object, when, and with which version and manager.

The versions of the object are read from the oldest one in the journal to the requested one; `OwnerWalk` keeps the
owners of its fields. A version costs about as much as what it changed, because only the fields that change often are
parsed (`BodyTemplate`).

Owners are a tree beside the object, in which a number is the version that set everything below it:

    1 create   {"data": {"a": "1", "b": "2"}}        owners 1
    5 update   {"data": {"a": "1", "b": "3"}}        owners {"data": {"a": 1, "b": 5}}

Equal parts keep their owners and are not walked into. Items of lists are matched like those of a difference: by a
merge key where they have one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from rewound.actors.golang.json import dumps
from rewound.actors.rewind.contents import parsed
from rewound.actors.rewind.difference import below, item_path, merge_key, pointer, position_path
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.versions import LINKS, SLICE, SLICE_BYTES, link_at
from rewound.journal import keys, records
from rewound.journal.errors import Damaged
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.view import View

BATCH_BYTES = 32 * 1024  # parsed without a pause: about half a millisecond

# A key of hundreds of kilobytes may have thousands of fields below it: complete pointers could take thousands of
# times the size of the object.
MAX_POINTER: Final = 4000
# Characters that repeat for each field: its paths, and who wrote it. 200,000 fields, the most that an object can
# have, usually take half of it.
MAX_TEXT: Final = 64 << 20


class FieldOwner(msgspec.Struct, frozen=True):
    field: str  # in the notation of a difference: spec.containers[name=web].image
    pointer: str | None  # JSON pointer; None: longer than MAX_POINTER (a shortened one points elsewhere)
    value: Any
    version: int


class Blame(msgspec.Struct, frozen=True):
    fields: list[FieldOwner]
    events: dict[int, Event]  # the versions that own a field, by offset, without their contents
    oldest: int  # the oldest version that was read, if retention has removed older ones; otherwise 0
    left_out: int = 0  # number of fields at the end of the object that exceed MAX_TEXT


def blame(journal: Journal, last: Event) -> LongWork[Blame]:
    """Find the owner of each field of an object at one of its events, which must not be its deletion."""
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
            # Either these are the first versions, or retention has just removed some: start over from the oldest one
            # left.
            walk, oldest = OwnerWalk(), events[0].offset if events[0].had_before else 0
            previous = events[0].previous
        previous = _check_chain(events, previous)
        for batch in _batches(events):
            yield Piece(partial(walk.add, batch), sum(len(event.body) for event in batch))
    fields, left_out = yield Piece(
        lambda: _fitting(_fields(walk.object, walk.owners), _path_size), len(last.body)
    )
    owning = yield from _owning_events(journal, last, sorted({field.version for field in fields}))
    sizes = {
        offset: len(event.user) + len(event.manager) + len(event.reason) for offset, event in owning.items()
    }
    known = (field for field in fields if field.version in owning)
    shown, more = _fitting(known, lambda field: _path_size(field) + sizes[field.version])
    return Blame(shown, owning, oldest, left_out + more)


def _fitting(
    fields: Iterable[FieldOwner], size_of: Callable[[FieldOwner], int]
) -> tuple[list[FieldOwner], int]:
    """Return the first fields, up to `MAX_TEXT` in total, and the number of the others."""
    found: list[FieldOwner] = []
    size = left_out = 0
    for field in fields:
        size += size_of(field)
        if size <= MAX_TEXT:
            found.append(field)
        else:
            left_out += 1
    return found, left_out


def _path_size(field: FieldOwner) -> int:
    return len(field.field) + len(field.pointer or "")


def _owning_events(journal: Journal, last: Event, offsets: list[int]) -> LongWork[dict[int, Event]]:
    """Return the events at some offsets, without their contents; always the last one, even if retention has removed
    it.
    """
    found = {last.offset: last._replace(body=b"", facts=b"")}
    position = 0
    while position < len(offsets):
        with journal.read() as view:
            for offset in offsets[position : position + SLICE]:
                event = view.readable(offset, contents=False)
                if event is not None:
                    found[offset] = event
        position += SLICE
        yield Piece(lambda: None)
    return found


def _chain(journal: Journal, key: bytes, last: Event) -> LongWork[list[int]]:
    """Return the offsets of an object's versions in ascending order, since its creation or the oldest in the journal.

    Only the checksum of the oldest index entry is verified here: each event names the one before it.
    """
    chain = [last.offset]
    previous = last.previous
    while previous:
        with journal.read() as view:
            previous = _add_previous(view, last.type_id, chain, previous)
            if not previous and len(chain) > 1:
                _check_link(view, key, chain[-1])
        yield Piece(lambda: None)
    chain.reverse()
    return chain


def _add_previous(view: View, type_id: int, chain: list[int], offset: int) -> int:
    """Add a version and some older ones; return the next older one, or 0 after the oldest in the journal."""
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
        raise Damaged(f"event {offset} does not belong to {records.printable(key)}")


def _read(journal: Journal, last: Event, offsets: list[int]) -> list[Event]:
    """Return the events of an object at some offsets, up to a number of bytes, without those that are gone."""
    with journal.read() as view:
        events = view.events_at(offsets, SLICE_BYTES)
        known = {event.offset for event in events}
        for offset in offsets[: bisect_right(offsets, events[-1].offset) if events else None]:
            if offset not in known:
                view.event(offset)  # raises what is wrong with it: a field may be older than it seems
    names = last[1:2] + last[3:5]
    for event in events:
        if event[1:2] + event[3:5] != names:
            key = keys.of_object(last.type_id, last.namespace, last.name)
            raise Damaged(f"event {event.offset} does not belong to {records.printable(key)}")
    return events


def _check_chain(events: list[Event], previous: int) -> int:
    """Check that each event follows the one before it, the first one `previous`; return the offset of the last."""
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


_Place = tuple[str, str | None, Any, "Owners"]  # path, pointer, value, owners


def _fields(document: Any, owners: Owners) -> Iterator[FieldOwner]:
    """Yield every leaf field with its owner, in the order of the document.

    Paths are made one by one: all paths of a map at once would take the length of its own path times its fields.
    """
    left: list[Iterator[_Place]] = [iter([("", "", document, owners)])]
    while left:
        place = next(left[-1], None)
        if place is None:
            left.pop()
        elif isinstance(place[2], dict) and place[2]:
            left.append(_members(*place))
        elif isinstance(place[2], list) and place[2]:
            left.append(_items(*place))
        else:
            yield FieldOwner(*place)


def _members(path: str, place: str | None, value: dict[str, Any], owner: Owners) -> Iterator[_Place]:
    whole = isinstance(owner, int)
    for key, one in value.items():
        at = None if place is None else _bounded_pointer(pointer(place, key))
        yield below(path, key), at, one, owner if whole else owner[key]


def _items(path: str, place: str | None, value: list[Any], owner: Owners) -> Iterator[_Place]:
    whole = isinstance(owner, int)
    key = merge_key(value, value)
    for position, one in enumerate(value):
        text = item_path(path, key, one[key]) if key else position_path(path, position)
        at = None if place is None else _bounded_pointer(f"{place}/{position}")
        yield text, at, one, owner if whole else owner[position]


def _bounded_pointer(text: str) -> str | None:
    return text if len(text) <= MAX_POINTER else None


# They change with every write, and name their writers themselves.
_IGNORED: Final = ("managedFields", "resourceVersion")
_METADATA: Final = "metadata"

# If there are more, placeholders for whole parts of the object replace them: its status, a part of its metadata.
MAX_PLACEHOLDERS: Final = 16
# Making a template costs about as much as it saves over a few versions. Each version adds one to the budget.
TEMPLATE_COST: Final = 4
MAX_CREDIT: Final = 64


class _Placeholder:
    """A field that is parsed in each version."""

    __slots__ = ("_key", "_owners", "_parent", "text")

    def __init__(self, text: bytes, key: str, parent: dict[str, Any], owners: dict[str, Owners]) -> None:
        self.text = text
        self._key, self._parent, self._owners = key, parent, owners

    def set(self, text: bytes, value: Any, version: int) -> None:
        self.text = text
        key = self._key
        before, self._parent[key] = self._parent[key], value
        if not unchanged(before, value):
            self._owners[key] = owners_after(before, self._owners[key], value, version)


class OwnerWalk:
    """Walks through the versions of an object in order, and keeps the owners of its fields.

    Most writes change a few fields of an object, often the same ones as earlier writes. All other bytes equal those
    of the version before, so only the fields that have changed before are parsed (`BodyTemplate`). A version that
    changed others is parsed and compared as a whole, and later versions parse these fields too.

    `object` and `owners` are those after the versions so far.
    """

    def __init__(self) -> None:
        self.object: Any = None  # without ignored fields
        self.owners: Owners = 0
        self._template: BodyTemplate | None = None
        self._placeholders: list[_Placeholder] = []
        self._changing: list[Path] = []  # fields that have changed
        self._credit = MAX_CREDIT

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._template is None or not self._fill(self._template, event):
                self._compare(event)
            self._credit = min(self._credit + 1, MAX_CREDIT)

    def _fill(self, template: BodyTemplate, event: Event) -> bool:
        """Take over the values of the placeholders; return whether nothing else changed."""
        texts = template.texts(event.body)
        if texts is None:
            return False
        changed = [
            (placeholder, text)
            for placeholder, text in zip(self._placeholders, texts, strict=True)
            if text != placeholder.text
        ]
        try:
            values = [orjson.loads(text) for _, text in changed]
        except orjson.JSONDecodeError:
            return False
        for (placeholder, text), value in zip(changed, values, strict=True):
            placeholder.set(text, value, event.offset)
        return True

    def _compare(self, event: Event) -> None:
        """Parse and compare the whole version."""
        document = parsed(event.body)
        ignored = {name: document[_METADATA].pop(name) for name in _IGNORED if name in document[_METADATA]}
        changed: list[Path] = []
        if self.object is None:
            self.owners = event.offset
        else:
            self.owners = owners_after(self.object, self.owners, document, event.offset)
            changed = changed_paths(self.object, document)
        self.object = document
        self._template = None
        if self._credit >= TEMPLATE_COST:
            self._credit -= TEMPLATE_COST
            self._make_template(event.body, ignored, changed)

    def _make_template(self, body: bytes, ignored: dict[str, Any], changed: list[Path]) -> None:
        there = [path for path in self._changing if self._has(path)]
        self._changing = outermost([*there, *changed])
        if len(self._changing) > MAX_PLACEHOLDERS:
            self._changing = outermost(path[: 2 if path[0] == _METADATA else 1] for path in self._changing)
        if len(self._changing) > 2 * MAX_PLACEHOLDERS:
            self._changing = []
            return
        template = body_template(body, [*((_METADATA, name) for name in ignored), *self._changing])
        texts = None if template is None else template.texts(body)
        if template is None or texts is None:
            return
        self._template = template
        self._placeholders = [
            self._placeholder(path, text, ignored) for path, text in zip(template.paths, texts, strict=True)
        ]

    def _has(self, path: Path) -> bool:
        value = self.object
        for key in path:
            if not isinstance(value, dict) or key not in value:
                return False
            value = value[key]
        return True

    def _placeholder(self, path: Path, text: bytes, ignored: dict[str, Any]) -> _Placeholder:
        key = path[-1]
        if len(path) == 2 and path[0] == _METADATA and key in ignored:
            return _Placeholder(text, key, ignored, {key: 0})
        if isinstance(self.owners, int):
            self.owners = dict.fromkeys(self.object, self.owners)
        value, owners = self.object, self.owners
        for step in path[:-1]:
            value, outer = value[step], owners
            owners = outer[step]
            if isinstance(owners, int):
                owners = outer[step] = dict.fromkeys(value, owners)
        return _Placeholder(text, key, value, owners)


def changed_paths(before: dict[str, Any], after: dict[str, Any]) -> list[Path]:
    """Return the paths that a version changed, as deep inside as objects have the same keys as before."""
    found: list[Path] = []
    left: list[tuple[Path, dict[str, Any], dict[str, Any]]] = [((), before, after)]
    while left:
        path, one, other = left.pop()
        if path and path != (_METADATA,) and one.keys() != other.keys():
            found.append(path)
            continue
        for key, value in other.items():
            old = one.get(key)
            if key in one and unchanged(old, value):
                continue
            if isinstance(old, dict) and isinstance(value, dict):
                left.append(((*path, key), old, value))
            else:
                found.append((*path, key))
    return found


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are not below another one of them."""
    found: list[Path] = []
    for path in sorted(set(paths)):
        if not found or path[: len(found[-1])] != found[-1]:
            found.append(path)
    return found


Owners = Any  # an offset, or a dict or list of Owners in the shape of the object


def unchanged(before: Any, after: Any) -> bool:
    return before is after or (before == after and type(before) is type(after))


def owners_after(before: Any, owners: Owners, after: Any, version: int) -> Owners:
    """Return the owners of a changed value; `before` and `owners` are those of the version before."""
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
            result[key] = owner if unchanged(old, value) else owners_after(old, owner, value, version)
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
        result.append(owner if unchanged(old, value) else owners_after(old, owner, value, version))
    return result


def _matched(before: list[Any], after: list[Any]) -> dict[int, int]:
    """Map the position of each item in `after` to its position in `before`, if it was there."""
    key = merge_key(before, after)
    if key:
        places = {item[key]: place for place, item in enumerate(before)}
        return {at: places[item[key]] for at, item in enumerate(after) if item[key] in places}
    if any(isinstance(item, (dict, list)) for item in (*before, *after)):
        return {at: at for at in range(min(len(before), len(after)))}
    values = {(type(item), item): place for place, item in enumerate(before)}
    return {at: values[type(item), item] for at, item in enumerate(after) if (type(item), item) in values}


Path = tuple[str, ...]  # keys of nested objects

# Bytes at the start of a piece that are searched for: longer needles take longer to prepare.
_NEEDLE: Final = 48
_PLACEHOLDER: Final = "\0placeholder %d"
_split = re.compile(rb'"\\u0000placeholder ([0-9]+)"').split


class BodyTemplate:
    """The bytes of a JSON object with placeholders for some values.

    It finds the values that the next version of the object has there, without parsing the rest.

        body        {"metadata":{"name":"a"},"spec":{...},"status":{"observed":7}}
        paths       [("status", "observed")]
        pieces      {"metadata":{"name":"a"},"spec":{...},"status":{"observed":      and      }}

    A body that consists of the pieces with a JSON value between each two is the same object with these values,
    because JSON has only one parse. The caller has to check that the texts between the pieces are JSON.
    """

    __slots__ = ("_first", "_last", "_middle", "paths")

    def __init__(self, pieces: Sequence[bytes], paths: Sequence[Path]) -> None:
        """`paths` are those of the placeholders between the pieces; there is at least one."""
        self._first, self._last = pieces[0], pieces[-1]
        self._middle = [(piece[:_NEEDLE], piece, len(piece)) for piece in pieces[1:-1]]
        self.paths = paths

    def texts(self, body: bytes) -> list[bytes] | None:
        """Return the texts that a body has between the pieces, or None if the rest differs from the template."""
        if not (body.startswith(self._first) and body.endswith(self._last)):
            return None
        begin = len(self._first)
        found: list[bytes] = []
        for needle, piece, size in self._middle:
            end = body.find(needle, begin)
            if not body.startswith(piece, end):
                end = body.find(piece, begin)
            if end < 0:
                return None
            found.append(body[begin:end])
            begin = end + size
        found.append(body[begin : len(body) - len(self._last)])
        return found


def body_template(body: bytes, paths: Sequence[Path]) -> BodyTemplate | None:
    """Return a template of a body with placeholders at some paths, or None if none can be made.

    No path may be below another.
    """
    if not paths:
        return None
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None  # a version that cannot be read
    for number, path in enumerate(paths):
        parent: Any = document
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = _PLACEHOLDER % number
    try:
        parts = _split(dumps(document))
    except orjson.JSONEncodeError:
        return None  # nests too deep
    if len(parts) != 2 * len(paths) + 1:
        return None  # the object itself contains the text of a placeholder
    return BodyTemplate(parts[::2], [paths[int(number)] for number in parts[1::2]])
