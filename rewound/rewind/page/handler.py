"""Serves the page about the journal, and the timeline that it reads.

    GET /debug/journal/                                  the page: files without data, without authentication
    GET /apis/rewound.cluster.io/v1/timeline             counts of events per bucket of time
    GET /apis/rewound.cluster.io/v1/timeline/events      the events, with `wait` as soon as there are new ones
    GET /apis/rewound.cluster.io/v1/timeline/objects     lifelines: objects from create to delete, with their phases
    GET /apis/rewound.cluster.io/v1/timeline/highlights  fields that authors fight over, and objects that fail
    GET /apis/rewound.cluster.io/v1/timeline/comparison  what was added, removed and changed between two moments
    GET /apis/rewound.cluster.io/v1/timeline/refused     requests that this server, or a recorded one, refused
    GET /apis/rewound.cluster.io/v1/timeline/gaps        stretches of time that a flight recorder did not record
    GET /apis/rewound.cluster.io/v1/timeline/suspects    what changed before an object broke, ranked
    GET /apis/rewound.cluster.io/v1/timeline/types       the types whose events the caller sees

All but the first are open to every user who may read discovery, and return what that user may list (`visibility.py`).
Everything else on the page comes from ordinary requests: lists and objects with `?at=`, history and blame.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import trio

from rewound.actors.errors import BadRequest
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.moments import thinned_time, thinned_warning
from rewound.actors.rewind.search import TextIndex, count_found, scope_of
from rewound.actors.rewind.timeline import (
    TRACKS,
    Cells,
    Filter,
    Hit,
    LeftOut,
    Range,
    Track,
    bucket_of,
    bucket_width,
    change_of,
    count_objects,
    count_rows,
    scan,
    sum_of,
    total,
)
from rewound.gateway.message import Response
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import MethodNotAllowed, NoSuchPath
from rewound.gateway.pipeline.route import PAGE_PATH, TIMELINE_PATH
from rewound.gateway.store import Store
from rewound.gateway.wire.worker_threads import encode_in_thread
from rewound.journal.records import Event
from rewound.rewind.gaps import gaps_in, visible_gaps
from rewound.rewind.handler import API_VERSION, respond_document
from rewound.rewind.page import parameters
from rewound.rewind.page.about import About
from rewound.rewind.page.comparison import ComparisonReader
from rewound.rewind.page.events import EventReader, Page, Query
from rewound.rewind.page.files import lead_to, respond_file
from rewound.rewind.page.index import PageIndex, Start
from rewound.rewind.page.objects import ObjectReader
from rewound.rewind.page.refused import visible_refused
from rewound.rewind.page.suspects import SuspectsReader
from rewound.rewind.page.visibility import Visibility, VisibleTypes
from rewound.rewind.turns import run_in_turns

# Cells of one timeline: each takes some ten bytes, and a page should stay far below two megabytes.
MAX_CELLS: Final = 60_000
MAX_ROWS: Final = 300
_MANY_CELLS: Final = 5_000  # more of them are written in a thread
_MAX_HITS: Final = 20_000
_HITS: Final = 1000  # counted in one step

Document = dict[str, Any]


class JournalPage:
    def __init__(
        self,
        store: Store,
        stop: trio.Event,
        start: Start,
        about: About,
        refused_written: Callable[[], Awaitable[None]],
        *,
        replays: bool,
    ) -> None:
        """`start` starts a task that ends with `stop`. `refused_written` waits until refused writes are in their file.

        `replays`: whether the server may have /debug/rewound/replay.
        """
        journal = store.journal
        self._replays = replays
        self._about = about
        self._meta_group = store.names.group("meta")
        self._registry = store.registry
        self._journal = journal
        self._now = store.write_contexts.now
        self._visibility = Visibility(journal, store.access.authorizer)
        self._respond = partial(respond_document, store.memory)
        self._indexes = PageIndex(journal, store.registry, start, stop)
        self._index, self._update = self._indexes.timeline, self._indexes.update
        self._events = EventReader(journal, self._indexes, store.feed, stop)
        self._objects = ObjectReader(journal, self._indexes, self._events)
        self._comparison = ComparisonReader(journal, self._indexes, self._events, store.write_contexts.now)
        self._refused_written = refused_written
        self._recording = about.replayed or about.data_dir
        self._suspects = SuspectsReader(
            journal,
            store.registry,
            self._visibility,
            store.access.authorizer,
            self._recording,
            store.write_contexts.now,
        )
        self._small_reads = trio.CapacityLimiter(2)
        self._refused_reads = trio.CapacityLimiter(1)  # one at a time: each reads a whole file
        self._serve: dict[str, Callable[[RequestContext], Awaitable[Response]]] = {
            TIMELINE_PATH: self._timeline,
            f"{TIMELINE_PATH}/events": self._list_events,
            f"{TIMELINE_PATH}/objects": self._list_objects,
            f"{TIMELINE_PATH}/highlights": self._list_highlights,
            f"{TIMELINE_PATH}/comparison": self._compare,
            f"{TIMELINE_PATH}/refused": self._list_refused,
            f"{TIMELINE_PATH}/gaps": self._list_gaps,
            f"{TIMELINE_PATH}/suspects": self._list_suspects,
            f"{TIMELINE_PATH}/types": self._list_types,
        }

    async def __call__(self, context: RequestContext) -> Response:
        path = context.route.path
        if not path.startswith(TIMELINE_PATH):
            return await render.complete(context, serve_file(context))
        serve = self._serve.get(path.rstrip("/"))
        if serve is None:
            raise NoSuchPath
        if context.request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(("GET",))
        parameters.refuse_token(context)
        return await serve(context)

    async def _visible_types(self, context: RequestContext) -> VisibleTypes:
        types, namespaces = parameters.types_of(context), parameters.namespaces_of(context)
        return await self._visibility.of(context.user, self._registry.current, types, namespaces)

    async def _list_types(self, context: RequestContext) -> Response:
        visible = await self._visible_types(context)
        items = [seen.document() for seen in visible.types.values()]
        document = {
            "kind": "TimelineTypes",
            "apiVersion": API_VERSION,
            "user": context.user.name,
            "metaGroup": self._meta_group,
            "replays": self._replays,
            "about": await trio.to_thread.run_sync(self._about.document),
            "items": items,
        }
        return await self._respond(context, document, 0)

    async def _timeline(self, context: RequestContext) -> Response:
        span = parameters.span_of(context, self._now())
        by, sought = parameters.grouping_of(context), parameters.filter_of(context)
        visible = await self._visible_types(context)
        await self._update()
        index = self._index
        width = bucket_width(span.end - span.start, parameters.buckets_of(context))
        start = span.start - span.start % width
        buckets = -(-(span.end - start) // width)
        times = [start + number * width for number in range(buckets + 1)]
        text = await self._indexes.text() if sought.terms or not sought.status else None
        statuses = None if text is None or sought.status else await self._indexes.status_only(text)
        reading = self._reading(visible)
        edges = await run_in_turns(index.times.offsets_before(times, index.low, index.upto))
        rows = await run_in_turns(_rows(index.tracks(), visible, by))
        covered = left_out = 0
        objects: dict[tuple[str, str], int] = {}
        merged = 1
        if text is not None and sought.terms and sought.empty:
            expression = self._indexes.expression(visible.groups(), sought)
            counted = count_found(text, expression, list(rows.values()), edges, MAX_CELLS, statuses)
            merged, covered = await self._indexes.search(counted)
        elif sought.empty:
            rows, left_out = await run_in_turns(_busiest(rows, edges[0], edges[-1], statuses))
            merged = await run_in_turns(count_rows(rows.values(), edges, MAX_CELLS, statuses))
            if index.knows_existing:
                objects = await run_in_turns(_objects(rows, edges[0], edges[-1]))
        elif text is not None and sought.terms:
            wanted = Query(visible, edges[0], edges[-1], True, sought, _MAX_HITS)
            covered = await self._count_found_events(rows, edges, wanted, text)
        else:
            covered = await self._count_matching(rows, visible, edges, sought, statuses)
        large = sum(len(cells) for cells, _ in rows.values()) > _MANY_CELLS
        fitted = await encode_in_thread(_fitted, rows) if large else _fitted(rows)
        merged *= fitted.merged
        for row in fitted.rows:
            if (row["type"], row["namespace"]) in objects:
                row["objects"] = objects[row["type"], row["namespace"]]
        document: Document = {
            "kind": "Timeline",
            **self._ends(visible),
            "start": start,
            "width": width * merged,
            "buckets": -(-buckets // merged),
            "rows": fitted.rows,
            **reading,
        }
        if text is not None and visible.types and (indexed := self._indexes.indexed(text)):
            document["indexed"] = indexed
        if left_out := left_out + fitted.left_out:
            document["rowsLeftOut"] = left_out
        if covered:
            document["searchedFrom"] = str(covered)
        return await self._respond(context, document, sum(4 * len(row["cells"]) for row in fitted.rows))

    def _reading(self, visible: VisibleTypes) -> Document:
        """The version before which events are not in the timeline's index yet, as a document like `_ends`."""
        index = self._index
        if index.complete or not visible.types:
            return {}
        return {"reading": {"from": str(index.low + 1)}}

    async def _count_found_events(self, rows: _Rows, edges: list[int], wanted: Query, text: TextIndex) -> int:
        """Count the newest events that match words and a filter; returns the same as `_count_matching`."""
        cells_of = {track.scope: cells for cells, tracks in rows.values() for track in tracks}

        def note(event: Event) -> None:
            if (cells := cells_of.get(scope_of(event))) is not None:
                cells.add(bucket_of(edges, event.offset), change_of(event))

        found = await self._events.find(wanted, Range(edges[0], edges[-1]), text, note)
        return found.following

    async def _count_matching(
        self,
        rows: _Rows,
        visible: VisibleTypes,
        edges: list[int],
        sought: Filter,
        left_out: LeftOut | None,
    ) -> int:
        """Count the newest events that match a filter; returns the version down to which it searched, 0 for all."""
        cells_of = {track.scope: cells for cells, tracks in rows.values() for track in tracks}
        tracks = [track for _, some in rows.values() for track in some]
        found = await run_in_turns(
            scan(
                self._journal,
                tracks,
                Range(edges[0], edges[-1]),
                sought,
                visible.shows_user,
                limit=_MAX_HITS,
                max_bytes=1 << 62,
                events=False,
                left_out=left_out,
            )
        )
        await run_in_turns(_add_hits(cells_of, edges, found.hits))
        return found.following

    async def _list_objects(self, context: RequestContext) -> Response:
        span = parameters.span_of(context, self._now())
        visible = await self._visible_types(context)
        await self._update()
        reading = self._reading(visible)
        found = await self._objects.read(context, visible, span)
        document: Document = {
            "kind": "TimelineObjects",
            **self._ends(visible),
            "metadata": {"continue": found.token} if found.token else {},
            "total": found.total,
            "items": found.items,
            **reading,
        }
        if found.indexed:
            document["indexed"] = found.indexed
        if found.left_out:
            document["leftOut"] = found.left_out
        if found.searched_from:
            document["searchedFrom"] = str(found.searched_from)
        return await self._respond(context, document, 200 * len(found.items))

    async def _list_highlights(self, context: RequestContext) -> Response:
        span = parameters.span_of(context, self._now())
        visible = await self._visible_types(context)
        found = await self._objects.highlights(context, visible, span)
        document = {"kind": "TimelineHighlights", **self._ends(visible), **self._reading(visible), **found}
        return await self._respond(context, document, 5000)

    async def _compare(self, context: RequestContext) -> Response:
        visible = await self._visible_types(context)
        found = await self._comparison.read(context, visible)
        document = {"kind": "TimelineComparison", **self._ends(visible), **found}
        return await self._respond(context, document, 300 * len(found["items"]))

    async def _list_refused(self, context: RequestContext) -> Response:
        visible = await self._visible_types(context)
        span, sought = parameters.whole_span_of(context), parameters.filter_of(context)
        await self._refused_written()
        limit, conflicts = parameters.limit_of(context), parameters.includes(context, "conflicts")
        read = partial(visible_refused, self._recording, visible, span, sought, limit, conflicts=conflicts)
        items = await trio.to_thread.run_sync(read, limiter=self._refused_reads)
        document = {"kind": "TimelineRefused", "apiVersion": API_VERSION, "items": items}
        return await self._respond(context, document, 500 * len(items))

    async def _list_gaps(self, context: RequestContext) -> Response:
        visible = await self._visible_types(context)
        span, limit = parameters.whole_span_of(context), parameters.limit_of(context, parameters.MAX_LIMIT)
        gaps = await trio.to_thread.run_sync(gaps_in, self._recording, limiter=self._small_reads)
        catalog, names = (
            self._registry.current,
            {seen.definition.type_name for seen in visible.types.values()},
        )

        async def sees(kind: str) -> bool:
            """A kind of which nothing was ever recorded is in no filter; its gap says why it is not there."""
            written = self._visibility.kind(catalog, kind)
            if kind in names or (written is not None and written[0]):
                return kind in names
            return await self._visibility.may_list(context.user, catalog, kind)

        items = await visible_gaps(gaps, (span.start, span.end), limit, sees, sees_any=bool(visible.types))
        document = {"kind": "TimelineGaps", "apiVersion": API_VERSION, "items": items}
        return await self._respond(context, document, 300 * len(items))

    async def _list_suspects(self, context: RequestContext) -> Response:
        await self._refused_written()
        document = await self._suspects.read(context)
        return await self._respond(context, document, 2000 * len(document["items"]))

    async def _list_events(self, context: RequestContext) -> Response:
        visible = await self._visible_types(context)
        wait = parameters.wait_of(context)
        if wait and parameters.is_descending(context):
            raise BadRequest("wait: needs order=ascending")
        if wait and context.parameters.boolean("contents"):
            raise BadRequest("wait: must not be combined with contents")
        wanted = self._events.query(context, visible)
        found = await self._events.read(wanted)
        if wait and not found.items and not found.following:
            document = partial(self._events_document, visible)
            return self._events.waiting(context.user.name, wanted, found, wait, document)
        self._warn_of_gaps(context, visible, found)
        return await self._respond(context, self._events_document(visible, found), found.size)

    def _warn_of_gaps(self, context: RequestContext, visible: VisibleTypes, found: Page) -> None:
        """Warn once if events are missing between those of this page, or of the following ones."""
        versions = [int(item["version"]) for item in found.items]
        with self._journal.read() as view:
            for type_id, one in view.thinned.items():
                if not one.dropped:
                    continue
                before = [version < one.upto for version in versions]
                follows = context.parameters.first("continue") and all(before)
                if type_id in visible.types and any(before) and not follows:
                    name = visible.types[type_id].name
                    context.warnings.append(thinned_warning(view, type_id, name, 0))

    def _events_document(self, visible: VisibleTypes, found: Page) -> Document:
        metadata = {"continue": found.token} if found.token else {}
        return {
            "kind": "TimelineEvents",
            **self._ends(visible),
            "metadata": metadata,
            "upto": str(found.upto),
            **({"indexed": found.indexed} if found.indexed else {}),
            "items": found.items,
        }

    def _ends(self, visible: VisibleTypes) -> Document:
        """The versions that the journal has, and the server's time. A user who may see no type gets no versions."""
        index, times = self._index, self._index.times
        ends: Document = {"apiVersion": API_VERSION, "now": self._now()}
        if visible.types and index.upto > index.start:
            ends["oldest"] = {"version": str(index.start + 1), "time": times.oldest}
            ends["newest"] = {"version": str(index.upto), "time": times.newest}
            if thinned := self._thinned(visible):
                ends["thinned"] = thinned
        return ends

    def _thinned(self, visible: VisibleTypes) -> list[Document]:
        """The types of which events were dropped, before when, and whether not only those that changed but times."""
        with self._journal.read() as view:
            return [
                {
                    "type": seen.name,
                    "version": str(one.upto),
                    "before": thinned_time(view, one.upto),
                    "whole": one.whole,
                }
                for type_id, one in view.thinned.items()
                if (seen := visible.types.get(type_id)) is not None and one.dropped
            ]


_Rows = dict[
    tuple[str, str], tuple[Cells, list[Track]]
]  # by type and namespace, either of which may be empty


def _rows(tracks: list[Track], visible: VisibleTypes, by: str) -> LongWork[_Rows]:
    rows: _Rows = {}
    for at in range(0, len(tracks), TRACKS):
        yield Piece(partial(_add_tracks, rows, tracks[at : at + TRACKS], visible, by))
    return rows


def _add_tracks(rows: _Rows, tracks: list[Track], visible: VisibleTypes, by: str) -> None:
    for track in tracks:
        if visible.sees(track):
            name = visible.types[track.type_id].name if by != "namespace" else ""
            namespace = track.namespace if by != "type" else ""
            rows.setdefault((name, namespace), (Cells(), []))[1].append(track)


def _add_hits(cells_of: dict[bytes, Cells], edges: list[int], hits: list[Hit]) -> LongWork[None]:
    for at in range(0, len(hits), _HITS):
        yield Piece(partial(_add_some_hits, cells_of, edges, hits[at : at + _HITS]))


def _add_some_hits(cells_of: dict[bytes, Cells], edges: list[int], hits: list[Hit]) -> None:
    for hit in hits:
        cells_of[hit.track.scope].add(bucket_of(edges, hit.offset), hit.change)


def _busiest(rows: _Rows, first: int, last: int, without: LeftOut | None) -> LongWork[tuple[_Rows, int]]:
    """The rows with the most events, and how many others have some: only the former are counted by bucket."""
    totals: dict[tuple[str, str], int] = {}
    for key, (_, tracks) in rows.items():
        totals[key] = yield from sum_of(partial(total, first=first, last=last, left_out=without), tracks)
    found = [key for key in sorted(totals, key=lambda key: -totals[key]) if totals[key]]
    return {key: rows[key] for key in found[:MAX_ROWS]}, len(found[MAX_ROWS:])


def _objects(rows: _Rows, first: int, last: int) -> LongWork[dict[tuple[str, str], int]]:
    """How many objects existed or changed, by row."""
    found: dict[tuple[str, str], int] = {}
    for key, (_, tracks) in rows.items():
        found[key] = yield from sum_of(partial(count_objects, first=first, last=last), tracks)
    return found


class _Fitted(NamedTuple):
    rows: list[Document]
    merged: int  # how many buckets were merged into one
    left_out: int  # rows


def _fitted(rows: _Rows) -> _Fitted:
    """The rows with the most events, sorted by name, with buckets wide enough to fit a response."""
    busiest = sorted(
        ((key, cells) for key, (cells, _) in rows.items() if cells.total), key=lambda one: -one[1].total
    )
    shown, merged = busiest[:MAX_ROWS], 1
    while sum(len(cells) for _, cells in shown) > MAX_CELLS:
        merged *= 2
        for _, cells in shown:
            cells.merge(2)
    documents = [
        {"type": name, "namespace": namespace, "total": cells.total, "cells": cells.flat()}
        for (name, namespace), cells in sorted(shown, key=lambda one: one[0])
    ]
    return _Fitted(documents, merged, len(busiest) - len(shown))


_FOLDER: Final = Path(__file__).parent / "static"


def serve_file(context: RequestContext) -> Response:
    """Respond with a file, or a redirect to the page. Raises NoSuchPath."""
    if context.request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed(("GET", "HEAD"))
    path = context.route.path
    if path == PAGE_PATH.rstrip("/"):
        return lead_to(PAGE_PATH)
    found = respond_file(_FOLDER, path.removeprefix(PAGE_PATH), context.request.headers)
    if found is None:
        raise NoSuchPath
    return found
