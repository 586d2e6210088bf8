"""Lifelines for the page: objects as bars from create to delete, with their phases, dependents below their owners.

The order of all lives of a range is cached for the few ranges that were requested last: further pages cost only their
rows.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from typing import Any, Final

import trio

from rewound.actors.errors import Expired
from rewound.actors.rewind.lifelines import (
    MAX_READS,
    SAMPLES,
    Details,
    Failing,
    Forest,
    Lifelines,
    Lives,
    Placed,
    TimedRange,
    numbers_of,
)
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.timeline import (
    Filter,
    Hit,
    LeftOut,
    Patterns,
    Range,
    Track,
    bucket_width,
    number_of,
    object_at,
    scan,
)
from rewound.gateway.pipeline.context import RequestContext
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.rewind.page import parameters
from rewound.rewind.page.events import EventReader, Query
from rewound.rewind.page.fights import find_fights
from rewound.rewind.page.index import PageIndex
from rewound.rewind.page.visibility import VisibleTypes, seen_tracks
from rewound.rewind.turns import run_in_turns

DEFAULT_ROWS: Final = 200
_FAILING: Final = 20  # objects that are named
_MAX_HITS: Final = 20_000
_BUCKETS: Final = 1000  # for marks that stand for several changes
_REMEMBERED: Final = 4  # forests, of 20,000 lives at most
_TOGETHER: Final = 100  # rows made in one step
_LOOKED_AT: Final = 5000  # rows, in one step
_HITS: Final = 1000  # looked up in one step

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    items: list[Document]
    total: int
    left_out: int
    searched_from: int  # 0: the filter has looked at all events
    token: str
    indexed: (
        dict[str, str] | None
    )  # how far updates of status are known, if a filter leaves them out and not all are


@dataclass(frozen=True, slots=True)
class _Ordered:
    forest: Forest
    searched_from: int


class ObjectReader:
    def __init__(
        self,
        journal: Journal,
        indexes: PageIndex,
        events: EventReader,
    ) -> None:
        self._journal = journal
        self._indexes = indexes
        self._index = indexes.timeline
        self._events = events
        self._lifelines = Lifelines(journal)
        self._forests: OrderedDict[object, _Ordered] = OrderedDict()
        self._ordering = (
            trio.Lock()
        )  # the same forest is made once, and two at a time would need twice the memory

    async def read(self, context: RequestContext, visible: VisibleTypes, times: parameters.Span) -> Rows:
        """BadRequest, Expired."""
        sought = parameters.filter_of(context)
        roots = context.parameters.optional_boolean("roots") is not False
        limit = parameters.limit_of(context, DEFAULT_ROWS)
        token = context.parameters.first("continue")
        position = parameters.position_in(token) if token else None
        if not visible.types:
            return Rows([], 0, 0, 0, "", None)
        await self._indexes.update()
        index = self._index
        first, last = await run_in_turns(
            index.times.offsets_before([times.start, times.end], index.start, index.upto)
        )
        at = 0
        if position is not None:
            at, first, last = position.at, position.first, min(position.last, index.upto)
        left_out, indexed = await self._indexes.updates_of_status(sought)
        ordered = await self._ordered(
            visible, sought, first, last, left_out, indexed, roots=roots, continued=position is not None
        )
        placed = ordered.forest.placed
        if under := context.parameters.first("under"):
            placed = await run_in_turns(_tree_under(placed, under))
        shown = placed[at : at + limit]
        items = await self._items(shown, visible, times, first, last, left_out)
        following = at + len(items)
        return Rows(
            items,
            len(placed) + (0 if under else ordered.forest.left_out),
            ordered.forest.left_out,
            ordered.searched_from,
            parameters.position_token(following, first, last) if following < len(placed) else "",
            indexed,
        )

    async def _ordered(
        self,
        visible: VisibleTypes,
        sought: Filter,
        first: int,
        last: int,
        left_out: LeftOut | None,
        indexed: dict[str, str] | None,
        *,
        roots: bool,
        continued: bool,
    ) -> _Ordered:
        # More of the index may be read between two requests. What retention removes is before the range.
        read = 0 if self._index.complete else self._index.low, tuple((indexed or {}).values())
        key = visible.key, sought, first, last, roots, read
        async with self._ordering:
            known = self._forests.get(key)
            if known is None:
                if continued and first < self._index.start:  # the order would not be that of the first page
                    raise Expired(
                        "continue: events of this range have been removed since: begin with the first page"
                    )
                known = await self._order(visible, sought, first, last, left_out, roots=roots)
                self._forests[key] = known
                while len(self._forests) > _REMEMBERED:
                    self._forests.popitem(last=False)
            self._forests.move_to_end(key)
            return known

    async def _order(
        self,
        visible: VisibleTypes,
        sought: Filter,
        first: int,
        last: int,
        left_out: LeftOut | None,
        *,
        roots: bool,
    ) -> _Ordered:
        tracks, chosen, searched_from = await self._chosen(visible, sought, first, last)
        lives = await self._lives(tracks, chosen, first, last, left_out)
        forest = await run_in_turns(self._lifelines.forest(lives, sought.name, roots=roots))
        return _Ordered(forest, searched_from)

    async def _chosen(
        self, visible: VisibleTypes, sought: Filter, first: int, last: int
    ) -> tuple[list[Track], Callable[[Track], frozenset[int] | None], int]:
        """The visible tracks, the objects of each that a filter allows, and down to which version it was searched."""
        tracks = await run_in_turns(seen_tracks(self._index.tracks(), visible))
        matching, searched_from = await matching_objects(
            self._journal, self._events, tracks, visible, sought, first, last
        )
        return tracks, partial(chosen_numbers, names=sought.name, matching=matching), searched_from

    async def _lives(
        self,
        tracks: list[Track],
        chosen: Callable[[Track], frozenset[int] | None],
        first: int,
        last: int,
        left_out: LeftOut | None,
    ) -> Lives:
        async with self._indexes.updating:  # the arrays of the index must not change meanwhile
            knows = self._index.knows_existing
            return await run_in_turns(
                self._lifelines.lives(tracks, first, last, chosen, left_out, knows_existing=knows)
            )

    async def highlights(
        self, context: RequestContext, visible: VisibleTypes, times: parameters.Span
    ) -> Document:
        """Objects whose fields several authors set in turn, and objects that fail, among all of a range."""
        if not visible.types:
            return {"fights": [], "failing": [], "failingTotal": 0}
        sought = parameters.filter_of(context)
        await self._indexes.update()
        index = self._index
        first, last = await run_in_turns(
            index.times.offsets_before([times.start, times.end], index.start, index.upto)
        )
        left_out, _ = await self._indexes.updates_of_status(sought)
        tracks, chosen, _ = await self._chosen(visible, sought, first, last)
        lives = await self._lives(tracks, chosen, first, last, left_out)
        shown = [track for track in tracks if visible.shows_user(track)]
        fights = await run_in_turns(
            find_fights(
                self._journal, lives.busiest, first, last, left_out, visible, {one.scope for one in shown}
            )
        )
        async with self._indexes.updating:
            failing, complete = await run_in_turns(
                self._lifelines.failing(tracks, last, chosen, partial(_type_name, visible))
            )
        failing = _each_trouble_first([one for one in failing if sought.name.matches(one.identity.name)])
        return {
            "fights": fights,
            "failing": [_failing(one, visible) for one in failing[:_FAILING]],
            "failingTotal": len(failing),
            **({} if complete else {"failingPartly": True}),
        }

    async def _items(
        self,
        shown: list[Placed],
        visible: VisibleTypes,
        times: parameters.Span,
        first: int,
        last: int,
        left_out: LeftOut | None,
    ) -> list[Document]:
        buckets: list[int] = []
        edges: list[int] = []
        changes = [one.life.changes for one in shown]
        # If there are too many changes for a mark each: phases and marks may read an event each.
        if max(changes, default=0) > SAMPLES or 2 * sum(changes) + len(shown) > MAX_READS:
            width = bucket_width(times.end - times.start, _BUCKETS)
            buckets = list(range(times.start - times.start % width, times.end + width, width))
            edges = await run_in_turns(self._index.times.offsets_before(buckets, first, last))
        span = TimedRange(times.start, first, last, buckets, edges)
        names = partial(_type_name, visible)
        details = await run_in_turns(self._lifelines.details(shown, span, names, left_out))
        return await run_in_turns(_documents(shown[: len(details)], details, visible))


def _tree_under(placed: list[Placed], uid: str) -> LongWork[list[Placed]]:
    """The object with this uid and its dependents, which follow it and are deeper."""
    for at in range(0, len(placed), _LOOKED_AT):
        found = yield Piece(partial(_find, placed, uid, at))
        if found is not None:
            return _tree_at(placed, found)
    return []


def _tree_at(placed: list[Placed], at: int) -> list[Placed]:
    depth = placed[at].depth
    return [placed[at], *takewhile(lambda one: one.depth > depth, islice(placed, at + 1, None))]


def _find(placed: list[Placed], uid: str, start: int) -> int | None:
    some = range(start, min(start + _LOOKED_AT, len(placed)))
    return next((at for at in some if placed[at].identity.uid == uid), None)


def _type_name(visible: VisibleTypes, track: Track) -> str:
    """Empty for a type whose objects have no phases: nothing of them need be parsed."""
    definition = visible.types[track.type_id].definition
    return definition.type_name if definition.is_custom or definition.has_status else ""


def _key(track: Track) -> tuple[int, str]:
    return track.type_id, track.namespace


_Matching = dict[tuple[int, str], set[int]]  # numbers of objects, by type and namespace


async def matching_objects(
    journal: Journal,
    events: EventReader,
    tracks: list[Track],
    visible: VisibleTypes,
    sought: Filter,
    first: int,
    last: int,
) -> tuple[_Matching | None, int]:
    """The objects that have events that a filter matches; None if it asks for none.

    It searches the newest events: down to the version that it returns too, 0 for all.
    """
    objects: _Matching = {}
    if sought.terms:
        wanted = Query(visible, first, last, True, replace(sought, status=True), _MAX_HITS)
        found = await events.find(wanted, Range(first, last), note=partial(_add_object, objects))
        return objects, found.following
    if not sought.needs_event:
        return None, 0
    found = await run_in_turns(
        scan(
            journal,
            tracks,
            Range(first, last),
            sought,
            visible.shows_user,
            limit=_MAX_HITS,
            max_bytes=1 << 62,
            events=False,
        )
    )
    await run_in_turns(_add_objects(objects, found.hits))
    return objects, found.following


def _add_object(objects: _Matching, event: Event) -> None:
    objects.setdefault((event.type_id, event.namespace), set()).add(number_of(event))


def _add_objects(objects: _Matching, hits: list[Hit]) -> LongWork[None]:
    for at in range(0, len(hits), _HITS):
        yield Piece(partial(_add_some_objects, objects, hits[at : at + _HITS]))


def _add_some_objects(objects: _Matching, hits: list[Hit]) -> None:
    for hit in hits:
        objects.setdefault(_key(hit.track), set()).add(object_at(hit.track, hit.change, hit.offset))


def chosen_numbers(track: Track, names: Patterns, matching: _Matching | None) -> frozenset[int] | None:
    """The numbers of the objects that a filter allows, as far as these are known without reading names; None: all."""
    exact: frozenset[int] | None = None
    if names.wanted and not any(name.endswith("*") for name in names.wanted):
        exact = numbers_of(track, names.wanted)
    if matching is None:
        return exact
    of_events = frozenset(matching.get(_key(track), ()))
    return of_events if exact is None else of_events & exact


def _each_trouble_first(failing: list[Failing]) -> list[Failing]:
    """The first object of each type and phase, then the second of each, and so on.

    Otherwise many pods that crash would hide the one rollout that is stuck.
    """
    before: Counter[tuple[int, str]] = Counter()
    ranks: list[int] = []
    for one in failing:
        ranks.append(before[one.track.type_id, one.words])
        before[one.track.type_id, one.words] += 1
    return [one for _, one in sorted(zip(ranks, failing, strict=True), key=lambda pair: pair[0])]


def _failing(one: Failing, visible: VisibleTypes) -> Document:
    return {
        "type": visible.types[one.track.type_id].name,
        "namespace": one.track.namespace,
        "name": one.identity.name,
        "uid": one.identity.uid,
        "version": str(one.newest),
        "micros": one.time,
        "phase": one.words,
    }


def _documents(
    shown: list[Placed], details: list[Details], visible: VisibleTypes
) -> LongWork[list[Document]]:
    items: list[Document] = []
    for at in range(0, len(shown), _TOGETHER):
        some = slice(at, at + _TOGETHER)
        items += yield Piece(partial(_some_documents, shown[some], details[some], visible))
    return items


def _some_documents(shown: list[Placed], details: list[Details], visible: VisibleTypes) -> list[Document]:
    return [_document(*pair, visible) for pair in zip(shown, details, strict=True)]


def _document(placed: Placed, details: Details, visible: VisibleTypes) -> Document:
    life, identity = placed.life, placed.identity
    seen = visible.types[life.track.type_id]
    return {
        "type": seen.name,
        "kind": seen.definition.kind,
        "namespace": life.track.namespace,
        "name": identity.name,
        "uid": identity.uid,
        "created": details.created,
        "deleted": details.deleted,
        "owner": identity.owner,
        "depth": placed.depth,
        "changes": life.changes,
        "phases": [[time, *phase] for time, phase in details.phases],
        "marks": details.marks,
        **({"authors": _authors(details)} if details.authors and visible.shows_user(life.track) else {}),
    }


def _authors(details: Details) -> list[str]:
    """The author of each mark, as the page names authors."""
    return [" with ".join(filter(None, author)) for author in details.authors]
