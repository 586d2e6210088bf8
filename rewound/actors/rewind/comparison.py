"""Compares two moments of the journal: which objects were added, removed and changed, and what changed in each.

The timeline's index has the first and the last event of each object between the moments. Contents are read for one
page only.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import compress
from typing import Any, Final, NamedTuple

from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.summary import compacted, summarize
from rewound.actors.rewind.timeline import (
    CREATED,
    DELETED,
    NOTHING,
    UPDATED,
    LeftOut,
    Patterns,
    Track,
    kept,
    total,
)
from rewound.actors.rewind.versions import link_at, uid_of
from rewound.journal import keys
from rewound.journal.log import Journal
from rewound.journal.records import Event

ADDED, REMOVED, CHANGED = range(3)
COMPARISONS: Final = ("added", "removed", "changed")
MAX_NAMES: Final = 50_000  # read for one request, if a filter needs them: some 200 ms
MAX_BYTES: Final = 4 << 20  # bytes of contents compared for one page, which ends early when they are reached
_COPIED: Final = 4000  # index entries per step
_BYTES_OF_ENTRY: Final = 32  # as `Piece.size` counts: more than 2,000 are compared in a thread
_NAMES_TOGETHER: Final = 300
_TRACKS: Final = 50  # tracks per step: each hashes the names in a filter

Document = dict[str, Any]


class Compared(NamedTuple):
    """An object that differs between two moments, with its first and last event between them."""

    comparison: int
    track: Track
    first: int
    last: int


def compared(
    track: Track, after: int, upto: int, only: frozenset[int] | None, without: array[int] = NOTHING
) -> LongWork[list[Compared]]:
    """Return the objects of a track whose versions differ at two offsets, in no order. `only`: consider these alone.

    Objects that have only updates in `without` are left out.
    """
    first: dict[int, tuple[int, int]] = {}  # offset and change, by object
    last: dict[int, tuple[int, int]] = {}
    for change in (CREATED, UPDATED, DELETED):
        offsets = track.offsets[change]
        start, end = bisect_right(offsets, after), bisect_right(offsets, upto)
        for at in range(start, end, _COPIED):
            yield Piece(partial(_record_ends, track, change, at, min(at + _COPIED, end), first, last))
    if without:
        telling = yield from _with_other_events(track, after, upto, without)
        only = telling if only is None else telling & only
    found: list[Compared] = yield Piece(
        partial(_differing, track, first, last, only), len(first) * _BYTES_OF_ENTRY
    )
    return found


def compared_tracks(
    tracks: Sequence[Track],
    after: int,
    upto: int,
    chosen: Callable[[Track], frozenset[int] | None],
    left_out: LeftOut | None,
) -> LongWork[list[Compared]]:
    """Compare many tracks; `chosen` returns the objects to consider in each, or None for all."""
    found: list[Compared] = []
    for at in range(0, len(tracks), _TRACKS):
        some = yield Piece(partial(_chosen, tracks[at : at + _TRACKS], after, upto, chosen))
        for track, only in some:
            without = NOTHING if left_out is None else left_out(track.scope)
            found += yield from compared(track, after, upto, only, without)
    return found


def _chosen(
    tracks: Sequence[Track], after: int, upto: int, chosen: Callable[[Track], frozenset[int] | None]
) -> list[tuple[Track, frozenset[int] | None]]:
    """Return the tracks with events between the moments; usually most have none."""
    some = [track for track in tracks if total((track,), after, upto)]
    return [(track, only) for track in some if (only := chosen(track)) is None or only]


def _with_other_events(track: Track, after: int, upto: int, without: array[int]) -> LongWork[frozenset[int]]:
    """Return the objects that have events other than these updates."""
    found: set[int] = set()
    for change in (CREATED, UPDATED, DELETED):
        offsets, objects = track.offsets[change], track.objects[change]
        start, end = bisect_right(offsets, after), bisect_right(offsets, upto)
        for at in range(start, end, _COPIED):
            part = slice(at, min(at + _COPIED, end))
            some: Iterable[int] = objects[part]
            if change == UPDATED:
                some = compress(some, kept(offsets[part], without))
            yield Piece(partial(found.update, some))
    return frozenset(found)


def _record_ends(
    track: Track,
    change: int,
    start: int,
    end: int,
    first: dict[int, tuple[int, int]],
    last: dict[int, tuple[int, int]],
) -> None:
    """Record the first and the last event of each object among some events of one change."""
    offsets, objects = track.offsets[change][start:end], track.objects[change][start:end]
    for number, offset in dict(zip(reversed(objects), reversed(offsets), strict=True)).items():
        if number not in first or offset < first[number][0]:
            first[number] = offset, change
    for number, offset in dict(zip(objects, offsets, strict=True)).items():
        if number not in last or offset > last[number][0]:
            last[number] = offset, change


def _differing(
    track: Track,
    first: dict[int, tuple[int, int]],
    last: dict[int, tuple[int, int]],
    only: frozenset[int] | None,
) -> list[Compared]:
    found: list[Compared] = []
    for number, (began, beginning) in first.items():
        ended, ending = last[number]
        existed, exists = beginning != CREATED, ending != DELETED
        if (existed or exists) and (only is None or number in only):
            comparison = (CHANGED if exists else REMOVED) if existed else ADDED
            found.append(Compared(comparison, track, began, ended))
    return found


def with_names(journal: Journal, found: list[Compared], names: Patterns) -> LongWork[list[Compared]]:
    """Return those whose names match. Reads at most `MAX_NAMES`."""
    matching: list[Compared] = []
    for at in range(0, min(len(found), MAX_NAMES), _NAMES_TOGETHER):
        some = found[at : min(at + _NAMES_TOGETHER, MAX_NAMES)]
        matching += yield Piece(partial(_named, journal, some, names))
    return matching


def _named(journal: Journal, some: list[Compared], names: Patterns) -> list[Compared]:
    with journal.read() as view:
        links = [(one, link_at(view, one.track.type_id, one.last)) for one in some]
    return [one for one, link in links if link is not None and names.matches(keys.names_of(link.key)[1])]


class Ends(NamedTuple):
    """An object at both moments; None where it did not exist or the journal no longer has it."""

    before: Event | None
    after: Event | None
    last: Event  # its last event between them

    @property
    def uid(self) -> str:
        return uid_of(self.last)

    @property
    def size(self) -> int:
        return sum(len(event.body) for event in (self.before, self.after) if event is not None)


def read_ends(journal: Journal, one: Compared) -> Ends | None:
    """Read an object at both moments, or return None if retention has just removed it."""
    with journal.read() as view:
        link = link_at(view, one.track.type_id, one.first)
        last = view.event(one.last)
        if link is None or last is None:
            return None
        return Ends(view.event(link.previous), None if one.comparison == REMOVED else last, last)


def summary_of_ends(ends: Ends, comparison: int, *, secret: bool) -> Document | None:
    """Summarize what differs, or return None for a removed object."""
    if ends.after is None:
        return None
    if comparison == CHANGED and ends.before is None:
        return compacted()
    return summarize(None if ends.before is None else ends.before.body, ends.after.body, secret=secret)
