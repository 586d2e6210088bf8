"""The lives of objects in a range of the log: when each existed, its phases, and who owns whom.

`_TrackLives` finds them in the timeline's index without reading the journal. `Lifelines` reads the rest: names, uids
and owners of the busiest lives, at most `MAX_LIVES`, to put dependents below their owners; and phases and times of
those on the page. What it reads from an event never changes and is cached by offset, so a second look costs little.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, compress, islice, pairwise, repeat
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from rewound.actors.rewind.contents import parsed
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.phases import BAD, Phase, phase_of
from rewound.actors.rewind.timeline import (
    CREATED,
    DELETED,
    NOTHING,
    UPDATED,
    LeftOut,
    Patterns,
    Track,
    count_objects,
    kept,
    object_number,
    total,
)
from rewound.actors.selectors.facts import unpack_uids
from rewound.journal import history, keys
from rewound.journal.log import Journal
from rewound.journal.records import Event

MAX_LIVES: Final = 20_000  # lives whose names and owners are read for one request: some 200 ms
MAX_MARKS: Final = 200  # marks of one life
_FOLDED: Final = 2000  # events of each change, per step
_COPIED: Final = 5000  # index entries per step
_CHOSEN: Final = 50  # tracks per step: each hashes the names in a filter
_MAX_TRACKS: Final = 50_000  # whose lives are cached, a kilobyte or more each
_READ_TOGETHER: Final = 100  # events per transaction
_CACHED_LIVES, _CACHED_EVENTS = 50_000, 100_000
_BYTES_OF_LIFE: Final = 64  # as `Piece.size` counts: more than 1,000 lives are sorted in a thread
MAX_BYTES_OF_NAMES: Final = 64 << 20  # of the events that contain the names
MAX_READS, MAX_BYTES = 4000, 16 << 20  # events and bytes read for the phases and marks of one page
SAMPLES: Final = 64  # events of a long life whose phases are read first; then those between differing ones


class Life(NamedTuple):
    """One object from its creation to its deletion, as far as the range shows it."""

    changes: int  # events in the range
    known: int  # the offset of any event of this life, up to the end of the range
    track: Track
    number: int
    created: int  # the offset of its first event; 0 if that is before the index
    deleted: int  # the offset of its last event; 0 if it exists at the end of the range


class _TrackLives:
    """The lives of all objects of a track, and the life that each event belongs to.

    It is computed once from the arrays of a track, and extended when these have grown: the lives in any range are
    then slices of arrays. It takes four bytes per event and 32 per life.
    """

    def __init__(self, track: Track) -> None:
        self.created, self.deleted = array("Q"), array("Q")
        self.known, self.numbers = array("Q"), array("Q")
        self.of_events = (array("I"), array("I"), array("I"))  # in the order of the track's offsets
        self._current: dict[int, int] = {}  # the current life of each existing object
        self._existed = len(track.existing)
        self._seen = [(0, 0)] * 3  # by change: the first and the last offset that were read

    def continues(self, track: Track) -> bool:
        """Whether the track has only grown at its end: the index may have read older events since."""
        newest = max(last for _, last in self._seen)
        return self._existed == len(track.existing) and all(
            len(lives) <= len(offsets)
            and (not lives or (offsets[0], offsets[len(lives) - 1]) == seen)
            and (len(lives) == len(offsets) or offsets[len(lives)] > newest)
            for lives, offsets, seen in zip(self.of_events, track.offsets, self._seen, strict=True)
        )

    def extend(self, track: Track) -> LongWork[None]:
        if not self.created:
            for some in _in_slices(track.existing.items(), _COPIED):
                yield Piece(partial(self._add_existing, some))
        for window in _windows(track, [len(lives) for lives in self.of_events]):
            yield Piece(partial(self._fold, track, window))

    def _add_existing(self, existing: list[tuple[int, int]]) -> None:
        for number, known in existing:
            self._add(number, 0, known)

    def _add(self, number: int, created: int, known: int) -> int:
        life = self._current[number] = len(self.created)
        self.created.append(created)
        self.deleted.append(0)
        self.known.append(known)
        self.numbers.append(number)
        return life

    def _fold(self, track: Track, window: _Window) -> None:
        """Assign events to lives: between creations and deletions, each object has one life."""
        (_, _), (at, end), (_, _) = window
        updates = track.offsets[UPDATED]
        for offset, change, number in _creations_and_deletions(track, window):
            until = bisect_left(updates, offset, at, end)
            if until > at:
                self._update(track, at, until)
                at = until
            if change == CREATED:
                self.of_events[CREATED].append(self._add(number, offset, offset))
            else:
                life = self._life(number, offset)
                del self._current[number]
                self.deleted[life] = offset
                self.of_events[DELETED].append(life)
        self._update(track, at, end)
        self._seen = [
            (offsets[0], offsets[end - 1]) if end else (0, 0)
            for offsets, (_, end) in zip(track.offsets, window, strict=True)
        ]

    def _update(self, track: Track, start: int, end: int) -> None:
        numbers = track.objects[UPDATED][start:end]
        try:
            lives = list(map(self._current.__getitem__, numbers))
        except KeyError:  # an object that existed before the index
            offsets = track.offsets[UPDATED][start:end]
            lives = list(map(self._life, numbers, offsets))
        self.of_events[UPDATED].extend(lives)

    def _life(self, number: int, offset: int) -> int:
        """Return the life of an object that exists."""
        life = self._current.get(number)
        return self._add(number, 0, offset) if life is None else life

    def newest(
        self, track: Track, last: int, only: frozenset[int] | None
    ) -> LongWork[list[tuple[int, Track]]]:
        """Find the newest event up to `last` of each object that exists there."""
        newest: dict[int, int] = {}
        for change in (CREATED, UPDATED):
            lives, offsets = self.of_events[change], track.offsets[change]
            end = min(bisect_right(offsets, last), len(lives))
            for at in range(0, end, _COPIED):
                part = slice(at, min(at + _COPIED, end))
                yield Piece(partial(newest.update, zip(lives[part], offsets[part], strict=False)))
        found: list[tuple[int, Track]] = []
        for at in range(0, len(self.created), _COPIED):
            found += yield Piece(partial(self._newest, track, at, last, only, newest))
        return found

    def _newest(
        self, track: Track, at: int, last: int, only: frozenset[int] | None, newest: dict[int, int]
    ) -> list[tuple[int, Track]]:
        part = slice(at, at + _COPIED)
        lives = enumerate(zip(self.created[part], self.deleted[part], self.numbers[part], strict=True), at)
        return [
            (newest.get(life, self.known[life]), track)
            for life, (created, deleted, number) in lives
            if created <= last and (not deleted or deleted > last) and (only is None or number in only)
        ]

    def in_range(
        self, track: Track, first: int, last: int, only: frozenset[int] | None, without: array[int]
    ) -> LongWork[_LivesInRange]:
        """Find the lives that exist or change after `first` and up to `last`. Updates in `without` do not count."""
        changes: Counter[int] = Counter()
        for change, (lives, offsets) in enumerate(zip(self.of_events, track.offsets, strict=True)):
            start, end = bisect_right(offsets, first), bisect_right(offsets, last)
            for at in range(start, end, _COPIED):
                part = slice(at, min(at + _COPIED, end))
                counted: Iterable[int] = lives[part]
                if change == UPDATED and without:
                    counted = compress(counted, kept(offsets[part], without))
                yield Piece(partial(changes.update, counted))
        found = _LivesInRange(track, self, array("I"), array("I"))
        for at in range(0, len(self.created), _COPIED):
            yield Piece(partial(self._add_in_range, found, at, first, last, changes, only))
        return found

    def _add_in_range(
        self,
        found: _LivesInRange,
        at: int,
        first: int,
        last: int,
        changes: Counter[int],
        only: frozenset[int] | None,
    ) -> None:
        part = slice(at, at + _COPIED)
        lives = enumerate(zip(self.created[part], self.deleted[part], self.numbers[part], strict=True), at)
        chosen = [
            life
            for life, (created, deleted, number) in lives
            if created <= last and (not deleted or deleted > first) and (only is None or number in only)
        ]
        found.lives.extend(chosen)
        found.changes.extend([changes.get(life, 0) for life in chosen])


class _LivesInRange(NamedTuple):
    """The lives of a track in a range, and how often each changed there."""

    track: Track
    of: _TrackLives
    lives: array[int]
    changes: array[int]

    def busy(self, least: int, last: int) -> list[Life]:
        """Return the lives with at least this many changes."""
        of, found = self.of, list[Life]()
        for life, changes in zip(self.lives, self.changes, strict=True):
            if changes >= least:
                deleted = of.deleted[life] if of.deleted[life] <= last else 0
                known, number, created = of.known[life], of.numbers[life], of.created[life]
                found.append(Life(changes, known, self.track, number, created, deleted))
        return found


def _in_slices(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def _creations_and_deletions(track: Track, window: _Window) -> list[tuple[int, int, int]]:
    """Return offset, change and object of the events that create and delete, in order."""
    found: list[tuple[int, int, int]] = []
    for change in (CREATED, DELETED):
        part = slice(*window[change])
        found += zip(track.offsets[change][part], repeat(change), track.objects[change][part], strict=False)
    return sorted(found)


_Window = list[tuple[int, int]]  # by change: start and end in its arrays


def _windows(track: Track, starts: list[int]) -> Iterator[_Window]:
    """Yield the events of a track after these positions, in order, some thousand at a time."""
    ends = [len(offsets) for offsets in track.offsets]
    while starts != ends:
        edge = min(
            offsets[min(start + _FOLDED, end) - 1]
            for offsets, start, end in zip(track.offsets, starts, ends, strict=True)
            if start < end
        )
        stops = [
            bisect_right(offsets, edge, start, end)
            for offsets, start, end in zip(track.offsets, starts, ends, strict=True)
        ]
        yield list(zip(starts, stops, strict=True))
        starts = stops


def _has_any(track: Track, first: int, last: int) -> bool:
    """Whether any object exists or changes in the range: many tracks are of deleted namespaces."""
    return count_objects((track,), first, last) > 0 or total((track,), first, last) > 0


def _chosen(
    tracks: Sequence[Track],
    first: int,
    last: int,
    chosen: Callable[[Track], frozenset[int] | None],
    *,
    knows_existing: bool,
) -> list[tuple[Track, frozenset[int] | None]]:
    """Return the tracks in which a filter may find objects, each with the objects that it allows."""
    some = [track for track in tracks if not knows_existing or _has_any(track, first, last)]
    return [(track, only) for track in some if (only := chosen(track)) is None or only]


def numbers_of(track: Track, names: Sequence[str]) -> frozenset[int]:
    """Return the numbers of objects with these names, without reading the journal."""
    found = (keys.find_object(track.type_id, track.namespace, name) for name in names)
    return frozenset(object_number(key) for key in found if key is not None)


class Identity(NamedTuple):
    name: str
    uid: str
    owner: str  # the uid of its controller, or of its first owner


class Moment(NamedTuple):
    """What an event says about the life of its object."""

    time: int
    phase: Phase | None
    author: tuple[str, str]  # user and field manager


class Failing(NamedTuple):
    """An object that exists at the end of a range and whose phase is bad there."""

    track: Track
    identity: Identity
    newest: int  # the offset of its newest event
    time: int
    words: str


K = TypeVar("K")
V = TypeVar("V")


class _Cache(Generic[K, V]):
    """A cache of the newest entries; it drops the older half when there are too many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        found = self._new.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        if len(self._new) >= self._most // 2:
            self._old, self._new = self._new, {}
        self._new[key] = value

    def __len__(self) -> int:
        return len(self._new.keys() | self._old.keys())


class Lives(NamedTuple):
    busiest: list[Life]  # at most MAX_LIVES
    total: int


@dataclass(slots=True)
class Placed:
    """A life at its place in the page."""

    life: Life
    identity: Identity
    depth: int = 0


@dataclass(slots=True)
class Forest:
    placed: list[Placed]
    left_out: int = 0  # number of lives with fewer changes that were not read


@dataclass(slots=True)
class Details:
    created: int = 0  # times in microseconds
    deleted: int = 0
    phases: list[tuple[int, Phase]] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    authors: list[tuple[str, str]] = field(default_factory=list)  # of each mark; empty if marks are merged


class Lifelines:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tracks: dict[tuple[int, str], _TrackLives] = {}
        self._identities: _Cache[int, Identity] = _Cache(_CACHED_LIVES)  # both by offset
        self._moments: _Cache[int, Moment] = _Cache(_CACHED_EVENTS)
        self._authors: dict[tuple[str, str], tuple[str, str]] = {}  # each once

    def statistics(self) -> dict[str, int]:
        return {
            "lives": sum(len(lives.created) for lives in self._tracks.values()),
            "identities": len(self._identities),
            "events": len(self._moments),
        }

    # Which lives, in which order.

    def lives(
        self,
        tracks: Sequence[Track],
        first: int,
        last: int,
        chosen: Callable[[Track], frozenset[int] | None],
        left_out: LeftOut | None = None,
        *,
        knows_existing: bool = False,
    ) -> LongWork[Lives]:
        """Find the objects that exist or change in a range of offsets. `chosen`: which ones, by track; None for all.

        `knows_existing`: the index knows every object that existed where it begins, so that counts reveal empty
        tracks.
        """
        if len(self._tracks) > _MAX_TRACKS:
            self._tracks.clear()  # most tracks are of deleted namespaces
        found: list[_LivesInRange] = []
        for at in range(0, len(tracks), _CHOSEN):
            some = yield Piece(
                partial(
                    _chosen, tracks[at : at + _CHOSEN], first, last, chosen, knows_existing=knows_existing
                )
            )
            for track, only in some:
                lives = yield from self._lives_of(track)
                without = NOTHING if left_out is None else left_out(track.scope)
                found.append((yield from lives.in_range(track, first, last, only, without)))
        total = sum(len(one.lives) for one in found)
        least = 0
        if total > MAX_LIVES:
            changes = chain.from_iterable(one.changes for one in found)
            least = (yield Piece(partial(sorted, changes), total))[-MAX_LIVES]
        busy: list[Life] = []
        for one in found:
            busy += yield Piece(partial(one.busy, least, last), len(one.lives) * _BYTES_OF_LIFE)
        if len(busy) > MAX_LIVES:  # several lives have this number of changes
            busy = yield Piece(partial(_busiest, busy, least), len(busy) * _BYTES_OF_LIFE)
        return Lives(busy, total)

    def _lives_of(self, track: Track) -> LongWork[_TrackLives]:
        key = track.type_id, track.namespace
        lives = self._tracks.get(key)
        if lives is None or not lives.continues(track):
            lives = self._tracks[key] = _TrackLives(track)
        try:
            yield from lives.extend(track)
        except BaseException:
            del self._tracks[key]  # the index may not have read all of it
            raise
        return lives

    def forest(self, found: Lives, names: Patterns, *, roots: bool) -> LongWork[Forest]:
        """Return the lives with these names, busiest first; with `roots`, dependents come below their owners."""
        placed: list[Placed] = []
        at = size = 0
        while at < len(found.busiest) and size <= MAX_BYTES_OF_NAMES:
            some = found.busiest[at : at + _READ_TOGETHER]
            size += yield from self._identify([life.known for life in some])
            placed += yield Piece(partial(self._placed, some, names))
            at += len(some)
        order = _trees if roots else _busiest_first
        placed = yield Piece(partial(order, placed), len(placed) * _BYTES_OF_LIFE)
        return Forest(placed, found.total - min(at, len(found.busiest)))

    def _identify(self, offsets: list[int]) -> LongWork[int]:
        """Read names and owners; return how many bytes that took. Large objects are read one by one."""
        missing = sorted(offset for offset in offsets if self._identities.get(offset) is None)
        total = 0
        while missing:
            size, missing = yield Piece(partial(self._identify_some, missing))
            total += size
        return total

    def _identify_some(self, offsets: list[int]) -> tuple[int, list[int]]:
        """Read some; return their bytes, and the offsets that are left."""
        events = self._events(offsets)
        for event in events:
            self._identities.put(event.offset, _identity(event))
        # The others are gone, unless the last one was large.
        read = events[-1].offset if events else offsets[-1]
        return sum(len(event.body) for event in events), offsets[bisect_right(offsets, read) :]

    def _placed(self, lives: list[Life], names: Patterns) -> list[Placed]:
        return [
            Placed(life, identity)
            for life in lives
            # None: retention has just removed it.
            if (identity := self._identities.get(life.known)) is not None and names.matches(identity.name)
        ]

    # Details of the lives on a page.

    def details(
        self,
        placed: Sequence[Placed],
        span: TimedRange,
        type_name: Callable[[Track], str],
        left_out: LeftOut | None = None,
    ) -> LongWork[list[Details]]:
        """Return the details of the lives of one page, or of fewer if they are large. `type_name`: "" for no phases."""
        offsets = yield from events_of(placed, span.first, span.last)
        budget = _Budget()
        found: list[Details] = []
        for one, own in zip(placed, offsets, strict=True):
            if budget.size > MAX_BYTES:
                break
            without = NOTHING if left_out is None else left_out(one.life.track.scope)
            name = type_name(one.life.track)
            found.append((yield from self._details(one, own, span, name, budget, without)))
        return found

    def _details(
        self,
        placed: Placed,
        offsets: array[int],
        span: TimedRange,
        type_name: str,
        budget: _Budget,
        without: array[int],
    ) -> LongWork[Details]:
        life, details = placed.life, Details()
        if type_name:  # first, because it reads times too
            details.phases = yield from self._phases(placed, offsets, span, type_name, budget)
        needed = [offset for offset in (life.created, life.deleted) if offset]
        ends = yield from self._read(needed, "", budget, always=True)
        details.created = ends[life.created].time if life.created in ends else 0
        details.deleted = ends[life.deleted].time if life.deleted in ends else 0
        if without:  # last, because the phases already contain these changes
            offsets = yield Piece(partial(_kept, offsets, without), len(offsets) * 8)
        if len(offsets) <= MAX_MARKS and budget.allows(len(offsets)):
            read = yield from self._read(offsets, "", budget)
            by_time = {read[offset].time: read[offset].author for offset in offsets if offset in read}
            details.marks = sorted(by_time)
            details.authors = [by_time[time] for time in details.marks]
        else:
            details.marks = yield Piece(partial(span.merged_marks, offsets))
        return details

    def _phases(
        self, placed: Placed, offsets: array[int], span: TimedRange, type_name: str, budget: _Budget
    ) -> LongWork[list[tuple[int, Phase]]]:
        life = placed.life
        if offsets and offsets[-1] == life.deleted:
            offsets = offsets[:-1]  # a deletion repeats the last content
        before = 0
        if not life.created or life.created <= span.first:
            before = yield Piece(partial(self._newest_before, placed, span.first))
        if before:
            offsets = array("Q", [before]) + offsets
        chosen: Sequence[int] = offsets
        if len(offsets) > SAMPLES:
            step = (len(offsets) - 1) / (SAMPLES - 1)
            chosen = [offsets[round(step * at)] for at in range(SAMPLES)]
        read = yield from self._read(chosen, type_name, budget)
        if len(offsets) > SAMPLES:
            yield from self._refine(offsets, chosen, read, type_name, budget)
        return _transitions(read, before, span.start)

    def _refine(
        self,
        offsets: array[int],
        chosen: Sequence[int],
        read: dict[int, Moment],
        type_name: str,
        budget: _Budget,
    ) -> LongWork[None]:
        """Find where the phase changed between two samples: a binary search for each change."""
        for one, other in pairwise(chosen):
            low, high = bisect_left(offsets, one), bisect_left(offsets, other)
            while high - low > 1 and offsets[low] in read and offsets[high] in read and budget.allows(1):
                if read[offsets[low]].phase == read[offsets[high]].phase:
                    break
                middle = (low + high) // 2
                read |= yield from self._read([offsets[middle]], type_name, budget)
                if offsets[middle] not in read:
                    break
                if read[offsets[middle]].phase == read[offsets[low]].phase:
                    low = middle
                else:
                    high = middle

    def _newest_before(self, placed: Placed, first: int) -> int:
        """Return the newest event of an object at an offset, or 0 if the journal does not have it."""
        track = placed.life.track
        key = keys.find_object(track.type_id, track.namespace, placed.identity.name)
        if key is None:
            return 0
        with self._journal.read() as view:
            return next(history.descending(view, history.of_object(view, key), first), 0)

    def _read(
        self, offsets: Sequence[int], type_name: str, budget: _Budget, *, always: bool = False
    ) -> LongWork[dict[int, Moment]]:
        """Read times, and phases if there is a type; skip events that are gone or exceed the budget."""
        found: dict[int, Moment] = {}
        missing: list[int] = []
        read = self._events if type_name else self._events_without_contents
        for offset in offsets:
            known = self._moments.get(offset)
            if known is None or (type_name and known.phase == _UNREAD):
                missing.append(offset)
            else:
                found[offset] = known
        while missing and (always or budget.allows(1)):
            events = yield Piece(partial(read, missing[:_READ_TOGETHER]))
            size = sum(len(event.body) for event in events)
            budget.spend(len(events), size)
            found |= yield Piece(partial(self._cache, events, type_name), size if type_name else 0)
            # The others are gone, unless the last one was large.
            last = events[-1].offset if events else missing[:_READ_TOGETHER][-1]
            missing = missing[bisect_right(missing, last) :]
        return found

    def _events(self, offsets: list[int]) -> list[Event]:
        """Return these events from the first one on, until they exceed a size."""
        with self._journal.read() as view:
            return view.events_at(offsets, _BYTES_TOGETHER)

    def _events_without_contents(self, offsets: list[int]) -> list[Event]:
        """Return these events, with empty facts and bodies."""
        with self._journal.read() as view:
            found = (view.readable(offset, contents=False) for offset in offsets)
            return [event for event in found if event is not None]

    def _cache(self, events: list[Event], type_name: str) -> dict[int, Moment]:
        found: dict[int, Moment] = {}
        if len(self._authors) > _CACHED_LIVES:
            self._authors.clear()
        for event in events:
            phase = phase_of(type_name, parsed(event.body)) if type_name else _UNREAD
            author = self._authors.setdefault((event.user, event.manager), (event.user, event.manager))
            found[event.offset] = Moment(event.time, phase, author)
            self._moments.put(event.offset, found[event.offset])
        return found

    # Objects that fail.

    def failing(
        self,
        tracks: Sequence[Track],
        last: int,
        chosen: Callable[[Track], frozenset[int] | None],
        type_name: Callable[[Track], str],
    ) -> LongWork[tuple[list[Failing], bool]]:
        """Return the objects whose phase at an offset is bad, the last changed first, and whether these are all.

        It reads the newest event of the objects that changed last, at most `MAX_READS`.
        """
        newest: list[tuple[int, Track]] = []
        for track in tracks:
            if type_name(track) and ((only := chosen(track)) is None or only):
                lives = yield from self._lives_of(track)
                newest += yield from lives.newest(track, last, only)
        newest = yield Piece(partial(sorted, newest, key=itemgetter(0), reverse=True), len(newest) * 8)
        found: list[Failing] = []
        for track, offsets in _by_track(newest[:MAX_READS]):
            read = yield from self._read(sorted(offsets), type_name(track), _Budget(), always=True)
            bad = [offset for offset in offsets if offset in read and _is_bad(read[offset].phase)]
            yield from self._identify(bad)
            for offset in bad:
                phase, identity = read[offset].phase, self._identities.get(offset)
                if phase is not None and identity is not None:
                    found.append(Failing(track, identity, offset, read[offset].time, phase.words))
        found.sort(key=lambda one: -one.newest)
        return found, len(newest) <= MAX_READS


def _is_bad(phase: Phase | None) -> bool:
    return phase is not None and phase.tone == BAD


def _by_track(found: Iterable[tuple[int, Track]]) -> list[tuple[Track, list[int]]]:
    grouped: dict[bytes, tuple[Track, list[int]]] = {}
    for offset, track in found:
        grouped.setdefault(track.scope, (track, []))[1].append(offset)
    return list(grouped.values())


_UNREAD: Final = Phase("", "")  # of an event whose time alone was read
_BYTES_TOGETHER: Final = 256 << 10


@dataclass(slots=True)
class _Budget:
    reads: int = 0
    size: int = 0

    def allows(self, more: int) -> bool:
        return self.reads + more <= MAX_READS and self.size <= 2 * MAX_BYTES

    def spend(self, reads: int, size: int) -> None:
        self.reads += reads
        self.size += size


@dataclass(frozen=True, slots=True)
class TimedRange:
    """A range of the log, divided into buckets of time: `edges[n]` is the newest offset before `times[n]`."""

    start: int  # a time in microseconds
    first: int  # events after this offset
    last: int
    times: Sequence[int]
    edges: Sequence[int]

    def merged_marks(self, offsets: Sequence[int]) -> list[int]:
        """Return the start times of the buckets that have events, wide enough that there are at most `MAX_MARKS`."""
        if not self.edges:
            return []
        buckets: list[int] = []
        position = 0
        while position < len(offsets):
            bucket = max(1, bisect_left(self.edges, offsets[position]))
            buckets.append(bucket - 1)
            edge = self.edges[bucket] if bucket < len(self.edges) else keys.MAX_OFFSET
            position = bisect_right(offsets, edge, position)
        width = 1
        while len(buckets) > MAX_MARKS:
            width *= 2
            buckets = list(dict.fromkeys(bucket // width * width for bucket in buckets))
        return [max(self.times[bucket], self.start) for bucket in buckets]


def _busiest(lives: list[Life], least: int) -> list[Life]:
    above = [life for life in lives if life.changes > least]
    return above + list(islice((life for life in lives if life.changes == least), MAX_LIVES - len(above)))


def _identity(event: Event) -> Identity:
    uid, owners = unpack_uids(event.facts)
    return Identity(event.name, uid, _controller(event.body, owners) if len(owners) > 1 else (*owners, "")[0])


def _controller(body: bytes, owners: Sequence[str]) -> str:
    references = parsed(body)["metadata"].get("ownerReferences")
    for one in references if isinstance(references, list) else ():
        if isinstance(one, dict) and one.get("controller") is True and isinstance(one.get("uid"), str):
            return str(one["uid"])
    return owners[0]


def _busiest_first(placed: list[Placed]) -> list[Placed]:
    return sorted(placed, key=lambda one: (-one.life.changes, one.life.created, one.identity.name))


def _trees(placed: list[Placed]) -> list[Placed]:
    """Order trees by how much changed in them; dependents, by creation, follow their owners.

    It uses no recursion, and accepts whatever owners objects claim: circles, or owners that do not exist.
    """
    by_uid: dict[str, int] = {}
    for number, one in enumerate(placed):
        if one.identity.uid:
            by_uid.setdefault(one.identity.uid, number)
    owner_of = [by_uid.get(one.identity.owner, -1) for one in placed]
    dependents: dict[int, list[int]] = {}
    for number, owner in enumerate(owner_of):
        if owner >= 0 and owner != number:
            dependents.setdefault(owner, []).append(number)
    roots = [number for number, owner in enumerate(owner_of) if owner < 0 or owner == number]
    reached: set[int] = set()
    trees: list[list[Placed]] = []
    # No root leads to objects in a circle: the first of each circle becomes a root.
    for root in chain(roots, range(len(placed))):
        if root not in reached:
            if root in dependents:
                trees.append(list(_tree(root, placed, dependents, reached)))
            else:
                reached.add(root)
                trees.append([placed[root]])
    trees.sort(
        key=lambda tree: (-sum(one.life.changes for one in tree), tree[0].life.created, tree[0].identity.name)
    )
    return list(chain.from_iterable(trees))


def _tree(
    root: int, placed: list[Placed], dependents: dict[int, list[int]], reached: set[int]
) -> Iterator[Placed]:
    left = [(root, 0)]
    while left:
        number, depth = left.pop()
        if number in reached:
            continue
        reached.add(number)
        placed[number].depth = depth
        yield placed[number]
        below = sorted(
            dependents.get(number, ()),
            key=lambda other: (placed[other].life.created, placed[other].identity.name),
            reverse=True,
        )
        left.extend((other, depth + 1) for other in below)


def events_of(placed: Sequence[Placed], first: int, last: int) -> LongWork[list[array[int]]]:
    """Return the offsets of each life in the range, ascending."""
    by_track: dict[tuple[int, str], list[int]] = {}
    for at, one in enumerate(placed):
        by_track.setdefault((one.life.track.type_id, one.life.track.namespace), []).append(at)
    found = [array("Q") for _ in placed]
    for some in by_track.values():
        track = placed[some[0]].life.track
        of_object: dict[int, array[int]] = {placed[at].life.number: array("Q") for at in some}
        # The index replaces the arrays of a track when it drops events or reads older ones: positions are valid only
        # in the arrays that they were found in.
        for offsets, objects in list(zip(track.offsets, track.objects, strict=True)):
            start, end = bisect_right(offsets, first), bisect_right(offsets, last)
            for begin in range(start, end, _COPIED):
                part = slice(begin, min(begin + _COPIED, end))
                yield Piece(partial(_collect, offsets[part], objects[part], of_object))
        for at in some:
            life = placed[at].life
            own = of_object[life.number]
            found[at] = yield Piece(partial(_events_of_life, life, own), len(own) * 8)
    return found


def _collect(offsets: array[int], objects: array[int], found: dict[int, array[int]]) -> None:
    for number, offset in compress(zip(objects, offsets, strict=True), map(found.__contains__, objects)):
        found[number].append(offset)


def _kept(offsets: array[int], without: array[int]) -> array[int]:
    return array("Q", compress(offsets, kept(offsets, without)))


def _events_of_life(life: Life, offsets: array[int]) -> array[int]:
    """Return the offsets of one life, from all events of the objects with its name."""
    ordered = sorted(offsets)
    first = bisect_left(ordered, life.created)
    last = bisect_right(ordered, life.deleted) if life.deleted else len(ordered)
    return array("Q", ordered[first:last])


def _transitions(read: dict[int, Moment], before: int, start: int) -> list[tuple[int, Phase]]:
    """Return where the phase changes; the first one is at the start of the life or of the range."""
    found: list[tuple[int, Phase]] = []
    for offset in sorted(read):
        time, phase, _ = read[offset]
        if phase is not None and phase != _UNREAD and (not found or found[-1][1] != phase):
            found.append((start if offset == before else time, phase))
    return found
