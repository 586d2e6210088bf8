"""Events of the journal by time, type and namespace: counts per bucket of time, and the events themselves.

`TimelineIndex` has the offset of every event in an array per type, namespace and change; `Times` finds the offsets of
times, `count` counts events per bucket, `scan` reads those that a filter matches.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import islice
from operator import add
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgpack

from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.versions import link_at
from rewound.journal import history, keys, records
from rewound.journal.log import Journal
from rewound.journal.records import Event, Link, Thinned
from rewound.journal.view import View

MAX_EVENTS: Final = 4_000_000  # 64 MB
_LINKS: Final = 300  # index entries read per transaction, in about a millisecond
_TRIMMED: Final = 500  # tracks per step
_JOINED: Final = 50  # tracks per step
BLOCK: Final = 1 << 14  # offsets in a block
_LOADED: Final = 32  # blocks loaded at once, of 256 kB
_GAP: Final = 16 * BLOCK  # offsets, which take a second to read

CREATED, UPDATED, DELETED = range(3)
CHANGES: Final = ("created", "updated", "deleted")


class Track:
    """The events of one type in one namespace: ascending offsets by change, and the object of each.

    An object is a number, the hash of its key, so that it is the same in whatever order events are read, and can be
    stored. Names are not in memory: the journal has them at any of the offsets.
    """

    __slots__ = ("existing", "namespace", "objects", "offsets", "scope", "type_id")

    def __init__(self, scope: bytes) -> None:
        """`scope` is the part of a state key before the name."""
        self.scope = scope
        self.type_id = int.from_bytes(scope[:2], "big")
        self.namespace = scope[2:].decode()
        self.offsets = (array("Q"), array("Q"), array("Q"))
        self.objects = (array("Q"), array("Q"), array("Q"))  # the object of each offset
        # Objects that existed where the index begins, with their newest event up to there. An object whose first
        # event in the index is no creation existed there too.
        self.existing: dict[int, int] = {}

    def add(self, offset: int, change: int, number: int) -> None:
        self.offsets[change].append(offset)
        self.objects[change].append(number)

    def trim(self, start: int) -> None:
        """Drop the events up to `start`, but remember what existed there."""
        existing = self.existing
        counts = [bisect_right(offsets, start) for offsets in self.offsets]
        for change in (CREATED, UPDATED):
            for number, offset in islice(self._pairs(change), counts[change]):
                existing[number] = max(existing.get(number, 0), offset)
        for number, offset in islice(self._pairs(DELETED), counts[DELETED]):
            if existing.get(number, offset) < offset:
                del existing[number]
        self.cut(start)

    def cut(self, start: int) -> None:
        """Drop the events up to `start`."""
        counts = [bisect_right(offsets, start) for offsets in self.offsets]
        if any(counts):
            self.offsets = _map_arrays(_without_first, self.offsets, counts)
            self.objects = _map_arrays(_without_first, self.objects, counts)

    def prepend(self, older: Track) -> None:
        """Add older events. Arrays are replaced, because a task that takes turns may still read the old ones."""
        self.offsets = _map_arrays(add, older.offsets, self.offsets)
        self.objects = _map_arrays(add, older.objects, self.objects)

    def append(self, newer: Track) -> None:
        for known, more in zip((*self.offsets, *self.objects), (*newer.offsets, *newer.objects), strict=True):
            known.extend(more)

    def packed(self) -> list[bytes]:
        return [self.scope, *(numbers.tobytes() for numbers in (*self.offsets, *self.objects))]

    @classmethod
    def unpacked(cls, scope: bytes, *numbers: bytes) -> Track:
        track = cls(scope)
        for known, stored in zip((*track.offsets, *track.objects), numbers, strict=True):
            known.frombytes(stored)
        return track

    def _pairs(self, change: int) -> Iterator[tuple[int, int]]:
        return zip(self.objects[change], self.offsets[change], strict=True)


_Arrays: TypeAlias = "tuple[array[int], array[int], array[int]]"


def _map_arrays(work: Callable[..., Any], first: _Arrays, second: Sequence[Any]) -> _Arrays:
    created, updated, deleted = (work(one, other) for one, other in zip(first, second, strict=True))
    return created, updated, deleted


def _without_first(numbers: array[int], count: int) -> array[int]:
    return numbers[count:]


_numbers: dict[bytes, int] = {}
_MAX_NUMBERS: Final = 50_000  # cached: most events are about few objects


def object_number(key: bytes) -> int:
    """Return the number of an object in a track, from its state key. 64 bits, so that no two objects share one."""
    number = _numbers.get(key)
    if number is None:
        if len(_numbers) >= _MAX_NUMBERS:
            _numbers.clear()
        number = _numbers[key] = int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
    return number


def number_of(event: Event) -> int:
    return object_number(keys.of_object(event.type_id, event.namespace, event.name))


def object_at(track: Track, change: int, offset: int) -> int:
    """Return the number of the object of an event, or 0 if retention has just removed the event."""
    offsets = track.offsets[change]
    position = bisect_left(offsets, offset)
    known = position < len(offsets) and offsets[position] == offset
    return track.objects[change][position] if known else 0


class Block(NamedTuple):
    """The events of `BLOCK` offsets, as bytes."""

    last: int  # the offset of the last one
    mark: bytes
    data: bytes


_MARK: Final = 5  # bytes at the start of a stored event: its layout and checksum


def event_mark(view: View, offset: int) -> bytes:
    """Return bytes that tell an event from another one at its offset, as in a restored journal; empty without an
    event.
    """
    value = view.txn.get(keys.pack_offset(offset), db=view.databases.events) if offset else None
    return b"" if value is None else bytes(value[:_MARK])


def _block_mark(view: View, last: int) -> bytes:
    """The mark of a block that ends with an event; another one when thinning has dropped events of the block."""
    mark, thinned = event_mark(view, last), sorted(view.thinned.values())
    older = not thinned or last - BLOCK >= thinned[-1].upto
    return mark if older or not mark else mark + b"%d" % sum(one.dropped for one in thinned)


class Blocks(Protocol):
    """Where parts of the index are stored: an `IndexFile`."""

    def load_blocks(self, first: int, last: int) -> dict[int, Block]: ...

    def save_block(self, number: int, block: Block) -> None: ...


_Tracks = dict[bytes, Track]  # by scope


def _never() -> bool:
    return False


class TimelineIndex:
    """Which events the journal has, by type, namespace and change. Call `update` before reading; one caller at a
    time.

    A timeline counts the events of many types in many buckets of time. The journal has an index by type, but no
    counts: a million events would be a million reads per request. This index has the offset of every event in an
    array per type, namespace and change, so that a count is two binary searches, and beside it the number of its
    object, so that the lives of objects are found without a read: sixteen bytes an event.

    It is read from the journal's index by type, the newest block of offsets first, so that the first timeline need
    not wait for all of it; each later request continues. It does not follow the feed. Whole blocks are stored, so
    that the next server reads few of them.

    It covers the newest `MAX_EVENTS` events above the retention floor. It does not contain times: `Times` finds their
    offsets.
    """

    def __init__(self, journal: Journal, blocks: Blocks | None = None) -> None:
        self._journal = journal
        self.blocks = blocks
        self._tracks: _Tracks = {}
        self._read_upto: dict[int, int] = {}  # by type; those not listed: up to `_began`
        self._began = 0
        self._thinned: dict[int, Thinned] = {}  # when it started over
        self._existing_upto: dict[
            int, int
        ] = {}  # by type: up to where objects that existed at the floor were read
        self._existing_floor, self._has_read_existing = 0, False
        # Whether tracks have everything that existed where the index begins. Never for a journal with more events
        # above its floor than the index can hold, until the index starts over.
        self.knows_existing = False
        self._older: list[_Tracks] = []  # blocks that were read, newest first, but not added yet
        self._joining: _Tracks = {}  # the same blocks joined, while they are added
        self._older_low = 0  # these blocks begin after this offset
        self._looked, self._stored = range(0), dict[int, Block]()  # blocks that were loaded, but not used yet
        self.times = Times(journal)
        self.start = 0  # the journal has events after this offset
        self.low = 0  # the index has events after this offset
        self.upto = 0  # and up to this one

    @property
    def complete(self) -> bool:
        return self.low <= self.start

    def update(self, enough: Callable[[], bool] = _never, *, shows: bool = True) -> LongWork[None]:
        """Read new events, drop those that retention removed, and read older blocks until `enough` returns true.

        Reads at least one block of offsets. Without `shows`, blocks may be added later, together with others.
        """
        with self._journal.read() as view:
            head, floor, thinned = view.head, view.floor, view.thinned
            types = view.written_types()
        start = max(floor, head - MAX_EVENTS)
        if start > self.start:
            yield from self._trim(start)
            self.start = start
        if (
            not self.upto
            or thinned != self._thinned
            or head - max((self._began, *self._read_upto.values())) > _GAP
        ):
            self._start_over(head)
            self._thinned = thinned
        if head != self.upto:
            # A replay may have stepped back: events that were read stay, but are not shown.
            for type_id in types:
                while (after := max(self._read_upto.get(type_id, self._began), start)) < head:
                    yield Piece(partial(self._read, type_id, after, head))
        if head != self.upto or start != self.times.start:
            yield from self.times.update(start, head)
            self.upto = head
        if not self.complete:
            yield from self._read_older(types, enough, shows=shows)
        if self.complete and not self._has_read_existing:
            yield from self._read_all_existing(types, floor)

    def _start_over(self, head: int) -> None:
        """Start over at the head, also when more was written than a request should wait for."""
        self._tracks, self._older, self._joining = {}, [], {}
        self._read_upto.clear()
        self._existing_upto.clear()
        self._has_read_existing = self.knows_existing = False
        self._looked, self._stored = range(0), {}
        self._began = self.low = self._older_low = head

    def _read(self, type_id: int, after: int, upto: int) -> None:
        links, self._read_upto[type_id] = self._links(type_id, after, upto)
        _add_links(self._tracks, links)

    def _links(self, type_id: int, after: int, upto: int) -> tuple[list[Link], int]:
        """Return some events of a type, and the offset up to which they are complete."""
        with self._journal.read() as view:
            links = list(islice(history.links(view, type_id, after, upto), _LINKS))
        return links, links[-1].offset if len(links) == _LINKS else upto

    # Older blocks. They are added when they are a third of the whole, so that arrays are copied only a few times.

    def _read_older(self, types: list[int], enough: Callable[[], bool], *, shows: bool) -> LongWork[None]:
        yield from self._join()
        read, known = sum(map(_size, self._older)), _size(self._tracks)
        while not self.complete:
            if self._older_low > self.start:
                number = (self._older_low - 1) // BLOCK
                first = max(number * BLOCK, self.start)
                tracks = yield from self._block(types, number, first, self._older_low)
                self._older.append(tracks)
                self._older_low = first
                read += _size(tracks)
            stops = enough() and self._began - self._older_low >= min(BLOCK, self._began - self.start)
            if (stops and shows) or self._older_low <= self.start or 2 * read >= known:
                self._joining = yield from _joined(self._older)
                self._older = []
                yield from self._join()
                read, known = 0, known + read
            if stops:
                return

    def _join(self) -> LongWork[None]:
        while self._joining:
            yield Piece(self._join_some)
        if not self._older:
            self.low = self._older_low

    def _join_some(self) -> None:
        for _ in range(min(_JOINED, len(self._joining))):
            scope, older = self._joining.popitem()
            older.cut(self.start)
            track = self._tracks.get(scope)
            if track is None:
                self._tracks[scope] = older
            else:
                track.prepend(older)

    def _block(self, types: list[int], number: int, first: int, last: int) -> LongWork[_Tracks]:
        """Return the events after `first` up to `last`: from a stored block, or from the journal."""
        ends = last == (number + 1) * BLOCK
        if self.blocks is not None and ends:
            if number not in self._looked:
                self._looked = range(max(self.start // BLOCK, number + 1 - _LOADED), number + 1)
                self._stored = yield Piece(
                    partial(self.blocks.load_blocks, self._looked[0], self._looked[-1]), waits=True
                )
            tracks: _Tracks | None = yield Piece(partial(self._checked, self._stored.pop(number, None)))
            if tracks is not None:
                return tracks
        tracks = {}
        for type_id in types:
            after = first
            while after < last:
                links, after = yield Piece(partial(self._links, type_id, after, last))
                yield Piece(partial(_add_links, tracks, links))
        if self.blocks is not None and ends and first == number * BLOCK and tracks:
            block = yield Piece(partial(self._packed, tracks, first))
            if block is not None:
                yield Piece(partial(self.blocks.save_block, number, block), waits=True)
        return tracks

    def _checked(self, stored: Block | None) -> _Tracks | None:
        if stored is None:
            return None
        with self._journal.read() as view:
            if stored.mark != _block_mark(view, stored.last):
                return None
        return {scope: Track.unpacked(scope, *numbers) for scope, *numbers in msgpack.unpackb(stored.data)}

    def _packed(self, tracks: _Tracks, first: int) -> Block | None:
        """Pack a block, or return None if retention has just removed some of its events."""
        last = max(offsets[-1] for track in tracks.values() for offsets in track.offsets if offsets)
        with self._journal.read() as view:
            mark = _block_mark(view, last)
            if view.floor > first or not mark:
                return None
        return Block(last, mark, msgpack.packb([track.packed() for track in tracks.values()]))

    # What existed where the index begins.

    def _read_all_existing(self, types: list[int], floor: int) -> LongWork[None]:
        if floor != self._existing_floor:
            self._existing_floor = floor
            self._existing_upto.clear()
        for type_id in types:
            while (after := self._existing_upto.get(type_id, 0)) < floor:
                yield Piece(partial(self._read_existing, type_id, after, floor))
        self._has_read_existing = True
        self.knows_existing = floor >= self.start

    def _read_existing(self, type_id: int, after: int, floor: int) -> None:
        """Read the events that retention has left up to the floor: they are the state there."""
        links, self._existing_upto[type_id] = self._links(type_id, after, floor)
        for offset, key, _, removed in links:
            if not removed:
                existing = _track(self._tracks, key).existing
                number = object_number(key)
                existing[number] = max(existing.get(number, 0), offset)

    def _trim(self, start: int) -> LongWork[None]:
        scopes = list(self._tracks)
        for at in range(0, len(scopes), _TRIMMED):
            yield Piece(partial(self._trim_some, scopes[at : at + _TRIMMED], start))

    def _trim_some(self, scopes: list[bytes], start: int) -> None:
        for scope in scopes:
            track = self._tracks[scope]
            track.trim(start)
            if not any(track.offsets) and not track.existing:
                del self._tracks[scope]

    def tracks(self) -> list[Track]:
        return list(self._tracks.values())

    def statistics(self) -> dict[str, int]:
        return {
            "tracks": len(self._tracks),
            "events": sum(len(offsets) for track in self._tracks.values() for offsets in track.offsets),
            "existing": sum(len(track.existing) for track in self._tracks.values()),
        }


def _add_links(tracks: _Tracks, links: list[Link]) -> None:
    for offset, key, previous, removed in links:
        change = DELETED if removed else UPDATED if previous else CREATED
        _track(tracks, key).add(offset, change, object_number(key))


def _track(tracks: _Tracks, key: bytes) -> Track:
    """Return the track of an object, by its state key."""
    scope = key[: key.index(b"\0", 2)]
    track = tracks.get(scope)
    if track is None:
        track = tracks[scope] = Track(scope)
    return track


def _size(tracks: _Tracks) -> int:
    return sum(len(offsets) for track in tracks.values() for offsets in track.offsets)


def _joined(blocks: list[_Tracks]) -> LongWork[_Tracks]:
    """Join blocks, newest first. They stay unchanged: if this is interrupted, they are joined again."""
    joined: _Tracks = {}
    for block in reversed(blocks):
        yield Piece(partial(_append, joined, block))
    return joined


def _append(joined: _Tracks, block: _Tracks) -> None:
    for scope, track in block.items():
        known = joined.get(scope)
        if known is None:
            known = joined[scope] = Track(scope)
        known.append(track)


STEP: Final = 512
_TIMES_SLICE: Final = 16  # marks read, or times found, per transaction
_REMEMBERED: Final = 50_000


class Times:
    """Finds the offsets of many times: times never decrease along the log, so each is a binary search.

    A search of the whole log reads twenty events. The times of some events are cached in memory, one every `STEP`
    offsets, so that a search reads only events between two of them. Results for times before the newest event cannot
    change any more and are cached: a timeline that moves asks for the same times again.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._offsets, self._times = array("Q"), array("Q")  # times of the marks, ascending
        self._found: dict[int, int] = {}
        self.start = 0  # events after this offset are covered
        self.newest = 0  # the time of the newest event that is covered
        self.oldest = 0  # time of the first event that is still in the journal

    def update(self, start: int, head: int) -> LongWork[None]:
        """Cover the events after `start` up to `head`."""
        if (gone := bisect_right(self._offsets, start) - 1) > 0:  # one before the first event stays
            del self._offsets[:gone], self._times[:gone]
            self._found.clear()
        following = max(start + 1, self._offsets[-1] + STEP if self._offsets else 0)
        while following <= head:
            yield Piece(partial(self._read_marks, following, head))
            following += STEP * _TIMES_SLICE
        yield Piece(partial(self._read_ends, start, head))

    def _read_marks(self, following: int, head: int) -> None:
        with self._journal.read() as view:
            for wanted in range(following, min(following + STEP * _TIMES_SLICE, head + 1), STEP):
                offset, time = _first_event(view, wanted)
                if offset > (self._offsets[-1] if self._offsets else 0):
                    self._offsets.append(offset)
                    self._times.append(time)

    def _read_ends(self, start: int, head: int) -> None:
        with self._journal.read() as view:
            self.oldest = _first_event(view, start + 1)[1]
            newest = view.event(head, contents=False)
            self.newest = self.oldest if newest is None else newest.time
        self.start = start

    def offsets_before(self, times: Sequence[int], start: int, upto: int) -> LongWork[list[int]]:
        """Return the newest offset before each of these times, between `start` and `upto`."""
        found: list[int] = []
        for at in range(0, len(times), _TIMES_SLICE):
            found += yield Piece(partial(self._find, times[at : at + _TIMES_SLICE], start, upto))
        return found

    def _find(self, times: Sequence[int], start: int, upto: int) -> list[int]:
        with self._journal.read() as view:
            return [min(max(self._offset_before(view, time), start), upto) for time in times]

    def _offset_before(self, view: View, time: int) -> int:
        known = self._found.get(time)
        if known is not None:
            return known
        if not self._offsets or time <= self._times[0]:
            return 0
        if time > self.newest:
            return keys.MAX_OFFSET
        # The time lies between these two marks.
        mark = bisect_left(self._times, time)
        high = self._offsets[mark] if mark < len(self._offsets) else view.head
        found = history.offset_at(view, time - 1, self._offsets[mark - 1], high)
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        self._found[time] = found
        return found

    def statistics(self) -> dict[str, int]:
        return {"marks": len(self._offsets), "remembered": len(self._found)}


def _first_event(view: View, offset: int) -> tuple[int, int]:
    """Return offset and time of the first event at or after an offset; zeros if there is none."""
    cursor = view.txn.cursor(view.databases.events)
    if not cursor.set_range(keys.pack_offset(offset)):
        return 0, 0
    found = keys.offset_of(cursor.key())
    return found, records.decode_event(found, cursor.value(), contents=False).time


SECOND: Final = 1_000_000
_STEPS: Final = (1, 2, 5)
_WALKED: Final = 4  # events per bucket


def bucket_width(span: int, buckets: int) -> int:
    """Return a width in microseconds, 1, 2 or 5 times a power of ten, so that a range has at most `buckets`.

    Buckets begin at multiples of it: those of a timeline that moves stay the same.
    """
    least = max(1, -(-span // max(1, buckets - 1)))
    power = 1
    while True:
        for step in _STEPS:
            if step * power >= least:
                return step * power
        power *= 10


class Cells:
    """The counts of one row of a timeline: of each change, by bucket."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts: dict[int, list[int]] = {}
        self.total = 0

    def add(self, bucket: int, change: int) -> None:
        self.counts.setdefault(bucket, [0, 0, 0])[change] += 1
        self.total += 1

    def __len__(self) -> int:
        return len(self.counts)

    def merge(self, buckets: int) -> None:
        """Merge several buckets into one."""
        merged: dict[int, list[int]] = {}
        for bucket, counts in self.counts.items():
            known = merged.setdefault(bucket // buckets, [0, 0, 0])
            for change, count in enumerate(counts):
                known[change] += count
        self.counts = merged

    def flat(self) -> list[int]:
        return [
            number
            for bucket in sorted(self.counts)
            if any(self.counts[bucket])
            for number in (bucket, *self.counts[bucket])
        ]


LeftOut: TypeAlias = "Callable[[bytes], array[int]]"  # updates to leave out: ascending offsets by scope


def kept(offsets: array[int], left_out: array[int]) -> list[bool]:
    """Say for each of some ascending offsets whether it is not left out."""
    if not offsets:
        return []
    first, last = bisect_left(left_out, offsets[0]), bisect_right(left_out, offsets[-1])
    without = frozenset(left_out[first:last])
    return [offset not in without for offset in offsets]


def total(tracks: Iterable[Track], first: int, last: int, left_out: LeftOut | None = None) -> int:
    """Return how many events these tracks have after the offset `first` and up to `last`."""
    return sum(_between(offsets, first, last) for track in tracks for offsets in track.offsets) - sum(
        _between(left_out(track.scope), first, last) for track in tracks if left_out is not None
    )


def count_objects(tracks: Iterable[Track], first: int, last: int) -> int:
    """Return how many objects exist or change after the offset `first` and up to `last`.

    These are the objects created until `last`, without those deleted until `first`; one that was deleted and created
    again counts twice. The result is right only if the index knows what existed where it begins: otherwise it
    subtracts deletions of objects that it has not counted.
    """
    return sum(
        len(track.existing)
        + bisect_right(track.offsets[CREATED], last)
        - bisect_right(track.offsets[DELETED], first)
        for track in tracks
    )


def _between(offsets: array[int], first: int, last: int) -> int:
    return bisect_right(offsets, last) - bisect_right(offsets, first)


TRACKS: Final = 500  # tracks per step, which takes about a millisecond


def sum_of(work: Callable[[Sequence[Track]], int], tracks: Sequence[Track]) -> LongWork[int]:
    """Add up a number over all tracks, some at a time."""
    found = 0
    for at in range(0, len(tracks), TRACKS):
        found += yield Piece(partial(work, tracks[at : at + TRACKS]))
    return found


def count(
    tracks: Sequence[Track], edges: Sequence[int], cells: Cells, left_out: LeftOut | None = None
) -> LongWork[None]:
    """Add the events of these tracks to a row, per bucket of time.

    edges     [10, 14, 14, 20]           bucket 0 has offsets 11 to 14, bucket 1 none, bucket 2 those from 15 to 20
    cells     [0, 3, 1, 0,  2, 0, 6, 0]  bucket, created, updated, deleted; and so on, without empty buckets
    """
    for at in range(0, len(tracks), TRACKS):
        found = yield Piece(partial(_parts_inside, tracks[at : at + TRACKS], edges[0], edges[-1], left_out))
        for change, offsets, sign, first, last in found:
            cells.total += sign * (last - first)
            count_them = walk if last - first < _WALKED * len(edges) else _search
            yield Piece(partial(count_them, offsets[first:last], edges, change, cells.counts, sign))


_PartInside: TypeAlias = "tuple[int, array[int], int, int, int]"  # change, offsets, sign, start and end


def _parts_inside(
    tracks: Sequence[Track], after: int, upto: int, left_out: LeftOut | None
) -> list[_PartInside]:
    """Return what tracks have in a range: usually most have nothing."""
    found: list[_PartInside] = []
    for track in tracks:
        without = NOTHING if left_out is None else left_out(track.scope)
        for change, offsets, sign in (*_positive(track), (UPDATED, without, -1)):
            first = bisect_right(offsets, after)
            last = bisect_right(offsets, upto, first)
            if first < last:
                found.append((change, offsets, sign, first, last))
    return found


NOTHING: Final = array("Q")


def _positive(track: Track) -> Iterator[tuple[int, array[int], int]]:
    return ((change, offsets, 1) for change, offsets in enumerate(track.offsets))


def count_rows(
    rows: Iterable[tuple[Cells, Sequence[Track]]],
    edges: Sequence[int],
    most: int,
    left_out: LeftOut | None = None,
) -> LongWork[int]:
    """Count the events of every row, in buckets so wide that all rows together have at most `most` cells.

    Returns how many buckets were merged into one. As soon as there are too many cells, buckets of the rows counted so
    far are merged, so that there are never many more, however many rows and buckets are requested.
    """
    merged, counted = 1, list[Cells]()
    for cells, tracks in rows:
        yield from count(tracks, edges, cells, left_out)
        counted.append(cells)
        while sum(map(len, counted)) > most and len(edges) > 2:
            merged *= 2
            edges = [*edges[:-1:2], edges[-1]]
            for one in counted:
                yield Piece(partial(one.merge, 2))
    return merged


def walk(
    offsets: array[int], edges: Sequence[int], change: int, counts: dict[int, list[int]], sign: int = 1
) -> None:
    """Count event by event: cheaper than a search for each bucket, if buckets have few events."""
    bucket, edge = -1, edges[0]
    current: list[int] = []
    for offset in offsets:
        if offset > edge:
            bucket = bisect_left(edges, offset, bucket + 1) - 1
            edge = edges[bucket + 1]
            current = counts.setdefault(bucket, [0, 0, 0])
        current[change] += sign


def _search(
    offsets: array[int], edges: Sequence[int], change: int, counts: dict[int, list[int]], sign: int = 1
) -> None:
    first = 0
    for bucket, edge in enumerate(edges[1:]):
        following = bisect_right(offsets, edge, first)
        if following > first:
            counts.setdefault(bucket, [0, 0, 0])[change] += sign * (following - first)
            first = following


def bucket_of(edges: Sequence[int], offset: int) -> int:
    return bisect_left(edges, offset) - 1


MAX_COST: Final = 100_000  # of one scan: some 200 ms
_LINK_COST, EVENT_COST, BYTES_PER_COST = 2, 5, 1000
_SCAN_SLICE: Final = 100  # candidates per transaction
_SLICE_COST: Final = 500


def change_of(event: Event) -> int:
    return DELETED if event.removed else UPDATED if event.previous else CREATED


class Hit(NamedTuple):
    offset: int
    track: Track
    change: int
    event: Event | None  # None if the caller needs no event; without its body, unless the caller needs it


@dataclass(frozen=True, slots=True)
class Patterns:
    """Texts to look for, and texts to exclude; each may end with `*`. Without any, everything matches."""

    wanted: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.wanted or self.excluded)

    def matches(self, text: str) -> bool:
        if any(_fits_pattern(pattern, text) for pattern in self.excluded):
            return False
        return not self.wanted or any(_fits_pattern(pattern, text) for pattern in self.wanted)


def patterns(*texts: str) -> Patterns:
    """Parse patterns. Those that begin with `!` are excluded: `web-*`, `!kube-system`."""
    wanted = dict.fromkeys(text for text in texts if text and not text.startswith("!"))
    excluded = dict.fromkeys(text[1:] for text in texts if text.startswith("!") and text != "!")
    return Patterns(tuple(wanted), tuple(excluded))


def _fits_pattern(pattern: str, text: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


_ANY: Final = Patterns()


@dataclass(frozen=True, slots=True)
class Filter:
    """What events must have, and must not have."""

    name: Patterns = _ANY
    verb: Patterns = _ANY
    user: Patterns = _ANY
    manager: Patterns = _ANY
    terms: str = ""  # terms of `search.parse_text`, for the text index
    status: bool = True  # include updates that changed only status

    @property
    def empty(self) -> bool:
        """Whether the indexes of the timeline and of words decide everything."""
        return not (self.name or self.needs_event)

    @property
    def needs_event(self) -> bool:
        return bool(self.verb or self.user or self.manager)

    def matches(self, event: Event, *, shows_user: bool) -> bool:
        """Whether an event matches. A user whom the caller may not see neither matches nor excludes: otherwise
        callers could guess names.
        """
        if not self.verb.matches(event.verb):
            return False
        if not shows_user:
            return not (self.user.wanted or self.manager.wanted)
        return self.user.matches(event.user) and self.manager.matches(event.manager)


@dataclass(frozen=True, slots=True)
class Range:
    after: int  # offsets above this one
    upto: int
    descending: bool = True


class Found(NamedTuple):
    hits: list[Hit]
    following: int  # the offset to continue at; 0 at the end of the range
    size: int  # bytes of the contents


_Candidate = tuple[int, Track, int]  # offset, track, change
# Offset (negative if descending), number of the track, change, position, and the offsets: the index may replace those
# of the track meanwhile.
_Head: TypeAlias = "tuple[int, int, int, int, array[int]]"


def scan(
    journal: Journal,
    tracks: Sequence[Track],
    wanted: Range,
    sought: Filter,
    shows_user: Callable[[Track], bool],
    *,
    limit: int,
    max_bytes: int,
    events: bool,
    bodies: bool = True,
    left_out: LeftOut | None = None,
) -> LongWork[Found]:
    """Read the events of some tracks in the order of the log, in either direction, and filter them.

    Name, verb and user are not in the index: the name is read from the journal's index by type, the rest from the
    event. One scan does a bounded amount of work; a caller that needs more continues at `following`.

    It returns at most `limit` events. Without `events`, hits have no events; without `bodies`, events have no
    content, which may be a megabyte each.
    """
    heap: list[_Head] = []
    for at in range(0, len(tracks), TRACKS):
        heap += yield Piece(partial(_heads, tracks, at, wanted))
    heapq.heapify(heap)
    candidates = _merged(heap, tracks, wanted)
    hits: list[Hit] = []
    cost = size = 0
    reader = _Reader(journal, sought, shows_user, left_out, events=events, bodies=bodies)
    while some := list(islice(candidates, _SCAN_SLICE)):
        while some:
            if len(hits) >= limit or cost >= MAX_COST or size >= max_bytes:
                return Found(hits, some[0][0], size)
            found, read, spent, some = yield Piece(partial(reader.read, some, limit - len(hits)))
            hits += found
            cost += spent
            size += read
    return Found(hits, 0, size)


class _Reader:
    def __init__(
        self,
        journal: Journal,
        sought: Filter,
        shows_user: Callable[[Track], bool],
        left_out: LeftOut | None,
        *,
        events: bool,
        bodies: bool,
    ) -> None:
        self._journal = journal
        self._sought = sought
        self._shows_user = shows_user
        self._left_out = left_out
        self._events = events
        self._bodies = bodies

    def read(self, candidates: list[_Candidate], limit: int) -> tuple[list[Hit], int, int, list[_Candidate]]:
        """Return hits, bytes, cost, and the candidates that are left."""
        hits: list[Hit] = []
        cost = size = 0
        with self._journal.read() as view:
            for position, candidate in enumerate(candidates):
                if len(hits) >= limit or cost >= _SLICE_COST:
                    return hits, size, cost, candidates[position:]
                hit, spent = self._hit(view, *candidate)
                cost += spent
                if hit is not None:
                    hits.append(hit)
                    size += 0 if hit.event is None else len(hit.event.body)
        return hits, size, cost, []

    def _hit(self, view: View, offset: int, track: Track, change: int) -> tuple[Hit | None, int]:
        cost = 0
        if change == UPDATED and self._left_out is not None and has(self._left_out(track.scope), offset):
            return None, 1
        if self._sought.name:
            cost = _LINK_COST
            link = link_at(view, track.type_id, offset)
            if link is None or not self._sought.name.matches(keys.names_of(link.key)[1]):
                return None, cost
        if self._sought.needs_event:
            cost += EVENT_COST
            written = view.readable(offset, contents=False)
            if written is None or not self._sought.matches(written, shows_user=self._shows_user(track)):
                return None, cost
        if not self._events:
            return Hit(offset, track, change, None), cost
        event = view.readable(offset)
        if event is None:  # retention has just removed it, or it is damaged
            return None, cost + EVENT_COST
        cost += EVENT_COST + len(event.body) // BYTES_PER_COST
        return Hit(offset, track, change, event if self._bodies else event._replace(body=b"")), cost


def has(offsets: array[int], offset: int) -> bool:
    position = bisect_left(offsets, offset)
    return position < len(offsets) and offsets[position] == offset


def _heads(tracks: Sequence[Track], at: int, wanted: Range) -> list[_Head]:
    """Return the first offset in the range of each of some tracks."""
    found: list[_Head] = []
    sign = -1 if wanted.descending else 1
    for number, track in enumerate(tracks[at : at + TRACKS], at):
        for change, offsets in enumerate(track.offsets):
            if wanted.descending:
                position = bisect_right(offsets, wanted.upto) - 1
            else:
                position = bisect_left(offsets, wanted.after + 1)
            if 0 <= position < len(offsets) and wanted.after < offsets[position] <= wanted.upto:
                found.append((sign * offsets[position], number, change, position, offsets))
    return found


def _merged(heap: list[_Head], tracks: Sequence[Track], wanted: Range) -> Iterator[_Candidate]:
    """Yield the offsets of all tracks in the range, in order."""
    sign = -1 if wanted.descending else 1
    while heap:
        signed, number, change, position, offsets = heap[0]
        yield sign * signed, tracks[number], change
        position += sign
        if 0 <= position < len(offsets) and wanted.after < offsets[position] <= wanted.upto:
            heapq.heapreplace(heap, (sign * offsets[position], number, change, position, offsets))
        else:
            heapq.heappop(heap)
