"""Reads the events of some tracks in the order of the log, in either direction, and filters them.

What the index does not have (name, verb and user) is read from the journal: the name from its index by type, the rest
from the event. One scan reads only so much; whoever wants more goes on at `following`.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from actors.rewind.steps import Steps, Work
from actors.rewind.versions import link_at
from actors.timeline.index import Track
from journal import keys
from journal.log import Journal
from journal.records import Event
from journal.view import View

MAX_COST: Final = 100_000  # of one scan: some 200 ms
_LINK_COST, _EVENT_COST, _BYTES_PER_COST = 2, 5, 1000
_TRACKS: Final = 500  # per step
_SLICE: Final = 100  # candidates per transaction
_SLICE_COST: Final = 500


class Hit(NamedTuple):
    offset: int
    track: Track
    change: int
    event: Event | None  # None if nothing of it was needed


@dataclass(frozen=True, slots=True)
class Filter:
    """What events must have; empty fields match everything. A name may end with `*`."""

    name: str = ""
    verb: str = ""
    user: str = ""

    @property
    def empty(self) -> bool:
        return not (self.name or self.verb or self.user)

    def matches_name(self, name: str) -> bool:
        if self.name.endswith("*"):
            return name.startswith(self.name[:-1])
        return not self.name or name == self.name

    def matches(self, event: Event, *, shows_user: bool) -> bool:
        """A user that the caller must not see matches nothing: else it could be found by trying."""
        if self.verb and event.verb != self.verb:
            return False
        return not self.user or (shows_user and event.user == self.user)


@dataclass(frozen=True, slots=True)
class Range:
    after: int  # offsets above this one
    upto: int
    descending: bool = True


class Found(NamedTuple):
    hits: list[Hit]
    following: int  # the offset with which to go on; 0 at the end of the range
    size: int  # bytes of the contents


_Candidate = tuple[int, Track, int]  # offset, track, change
_Head = tuple[int, int, int, int]  # offset (negative if descending), number of the track, change, position


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
) -> Steps[Found]:
    """At most `limit` events. Without `events`, hits have none if the filter needs none."""
    heap: list[_Head] = []
    for at in range(0, len(tracks), _TRACKS):
        heap += yield Work(partial(_heads, tracks, at, wanted))
    heapq.heapify(heap)
    candidates = _merged(heap, tracks, wanted)
    hits: list[Hit] = []
    cost = size = 0
    reader = _Reader(journal, sought, shows_user, events or bool(sought.verb or sought.user))
    while some := list(islice(candidates, _SLICE)):
        while some:
            if len(hits) >= limit or cost >= MAX_COST or size >= max_bytes:
                return Found(hits, some[0][0], size)
            found, read, spent, some = yield Work(partial(reader.read, some, limit - len(hits)))
            hits += found
            cost += spent
            size += read
    return Found(hits, 0, size)


class _Reader:
    def __init__(
        self, journal: Journal, sought: Filter, shows_user: Callable[[Track], bool], events: bool
    ) -> None:
        self._journal = journal
        self._sought = sought
        self._shows_user = shows_user
        self._events = events

    def read(self, candidates: list[_Candidate], limit: int) -> tuple[list[Hit], int, int, list[_Candidate]]:
        """Hits, bytes, cost, and the candidates that are left."""
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
        if self._sought.name:
            cost = _LINK_COST
            link = link_at(view, track.type_id, offset)
            if link is None or not self._sought.matches_name(keys.names_of(link.key)[1]):
                return None, cost
        if not self._events:
            return Hit(offset, track, change, None), cost
        event = view.event(offset)
        if event is None:  # retention has removed it meanwhile
            return None, cost + _EVENT_COST
        cost += _EVENT_COST + len(event.body) // _BYTES_PER_COST
        if not self._sought.matches(event, shows_user=self._shows_user(track)):
            return None, cost
        return Hit(offset, track, change, event), cost


def _heads(tracks: Sequence[Track], at: int, wanted: Range) -> list[_Head]:
    """The first offset in the range of each of some tracks."""
    found: list[_Head] = []
    sign = -1 if wanted.descending else 1
    for number, track in enumerate(tracks[at : at + _TRACKS], at):
        for change, offsets in enumerate(track.offsets):
            if wanted.descending:
                position = bisect_right(offsets, wanted.upto) - 1
            else:
                position = bisect_left(offsets, wanted.after + 1)
            if 0 <= position < len(offsets) and wanted.after < offsets[position] <= wanted.upto:
                found.append((sign * offsets[position], number, change, position))
    return found


def _merged(heap: list[_Head], tracks: Sequence[Track], wanted: Range) -> Iterator[_Candidate]:
    """The offsets of all tracks in the range, in order."""
    sign = -1 if wanted.descending else 1
    while heap:
        signed, number, change, position = heap[0]
        track = tracks[number]
        yield sign * signed, track, change
        position += sign
        offsets = track.offsets[change]
        if 0 <= position < len(offsets) and wanted.after < offsets[position] <= wanted.upto:
            heapq.heapreplace(heap, (sign * offsets[position], number, change, position))
        else:
            heapq.heappop(heap)
