"""Serves the events of a timeline: pages of them, and long polls for new ones.

A client that follows the journal requests the events after the last version that it has seen, and says how long to wait
if there are none. The response begins at once and its body follows with the first event: a client that waits uses no
seat of flow control. Instead, the number of waiting requests is bounded, and how often each looks for events while
others write objects that its user may not see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import orjson
import trio

from rewound.actors.rewind.documents import event_document
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.moments import Moment
from rewound.actors.rewind.search import TextIndex, find_events, scope_of
from rewound.actors.rewind.summary import compacted, summarize
from rewound.actors.rewind.timeline import (
    CHANGES,
    UPDATED,
    Filter,
    Found,
    Hit,
    LeftOut,
    Range,
    Track,
    change_of,
    has,
    scan,
)
from rewound.actors.rewind.versions import uid_of
from rewound.actors.store.feed import Feed
from rewound.gateway.memory.budget import TooManyRequests
from rewound.gateway.message import Response
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.wire.json import dump_line
from rewound.journal.keys import MAX_OFFSET
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.rewind.page import parameters
from rewound.rewind.page.index import PageIndex
from rewound.rewind.page.visibility import VisibleTypes, seen_tracks
from rewound.rewind.parameters import offset_in, token_of
from rewound.rewind.turns import run_in_turns

MAX_BYTES: Final = 4 << 20  # bytes of contents after which a page ends early
MAX_WAITING: Final = 200  # requests
MAX_WAITING_OF_USER: Final = 20  # a tab of a browser has one
# Seconds between two looks of a request that has found nothing; doubled each time.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
_TOGETHER: Final = 50  # documents made in one step
# Fields for users who may read the history.
_WRITER = ("user", "fieldManager", "reason", "guessed", "userGuessed")

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    visible: VisibleTypes
    after: Moment | int  # the events after an offset, or from a time on
    upto: Moment | int
    descending: bool
    sought: Filter
    limit: int
    contents: bool = False
    summary: bool = False
    before: bool = False  # with contents: also the previous content of each object

    @property
    def bodies(self) -> bool:
        """Whether the contents of events are needed."""
        return self.contents or self.summary

    @property
    def max_bytes(self) -> int:
        if self.contents and self.before:
            return MAX_BYTES // 2
        return MAX_BYTES if self.bodies else 1 << 62


@dataclass(frozen=True, slots=True)
class Page:
    items: list[Document]
    following: int  # the offset of the next page; 0 after the last
    upto: int  # ascending, all events up to this version have been searched
    size: int
    indexed: Document | None = None  # the events that have words, if these are not all yet

    @property
    def token(self) -> str:
        return token_of(self.following) if self.following else ""


class EventReader:
    def __init__(
        self,
        journal: Journal,
        index: PageIndex,
        feed: Feed,
        stop: trio.Event,
    ) -> None:
        self._journal = journal
        self._index = index
        self._feed = feed
        self._stop = stop
        self._waiting: Counter[str] = Counter()  # requests, by user

    def query(self, context: RequestContext, visible: VisibleTypes) -> Query:
        """Parse a request: `from` and `to` are inclusive. Raises BadRequest."""
        first = parameters.moment_of(context, "from")
        last = parameters.moment_of(context, "to")
        wanted = Query(
            visible,
            _after(first),
            MAX_OFFSET if last is None else last if last.version is None else last.version,
            parameters.is_descending(context),
            parameters.filter_of(context),
            parameters.limit_of(context),
            context.parameters.boolean("contents"),
            context.parameters.boolean("summary"),
            context.parameters.boolean("before"),
        )
        if token := context.parameters.first("continue"):
            start = offset_in(token)
            wanted = replace(wanted, upto=start) if wanted.descending else replace(wanted, after=start - 1)
        return wanted

    async def read(self, wanted: Query) -> Page:
        if not wanted.visible.types:
            return Page([], 0, 0, 0)
        await self._index.update()
        index = self._index.timeline
        times = [
            wanted.after.time or 0 if isinstance(wanted.after, Moment) else 0,
            (wanted.upto.time or 0) + 1 if isinstance(wanted.upto, Moment) else 0,
        ]
        upto = index.upto
        found_at = await run_in_turns(index.times.offsets_before(times, index.start, upto))
        after = found_at[0] if isinstance(wanted.after, Moment) else wanted.after
        last = found_at[1] if isinstance(wanted.upto, Moment) else min(wanted.upto, upto)
        indexed: Document | None = None
        if wanted.sought.terms:
            text = await self._index.text()
            indexed = self._index.indexed(text)
            span = Range(max(after, index.start), last, wanted.descending)
            found = await self.find(wanted, span, text)
            last = min(last, text.covered.high) if text.covered is not None else after
        else:
            if not wanted.descending and after < index.low:
                await self._index.update_all()
            found, indexed = await self._scan(wanted, Range(after, last, wanted.descending))
        items = await run_in_turns(_documents(found.hits, wanted.visible, contents=wanted.contents))
        following, size = found.following, found.size if wanted.contents else 0
        if wanted.contents and wanted.before:
            size += await run_in_turns(_add_before(self._journal, found.hits, items))
        if wanted.summary:
            summaries = await run_in_turns(_summaries(self._journal, found.hits, wanted.visible))
            for item, summary in zip(items, summaries, strict=False):
                if summary is not None:
                    item["summary"] = summary
            if len(summaries) < len(items):
                following = found.hits[len(summaries)].offset
                del items[len(summaries) :]
        searched = following - 1 if following else max(after, last)
        return Page(items, following, searched, size, indexed)

    async def _scan(self, wanted: Query, span: Range) -> tuple[Found, Document | None]:
        """The events of a range, and whether it is known of all updates if they changed status only."""
        left_out, indexed = await self._index.updates_of_status(wanted.sought)
        index = self._index.timeline
        low = index.low  # more may be read while this waits
        tracks = await run_in_turns(seen_tracks(index.tracks(), wanted.visible))
        found = await run_in_turns(
            scan(
                self._journal,
                tracks,
                replace(span, after=max(span.after, low)),
                wanted.sought,
                wanted.visible.shows_user,
                limit=wanted.limit,
                max_bytes=wanted.max_bytes,
                events=True,
                bodies=wanted.bodies,
                left_out=left_out,
            )
        )
        if not found.following and span.after < low and low > index.start:
            # Older events are still being read.
            found = found._replace(following=min(low, span.upto))
        return found, indexed

    async def find(
        self,
        wanted: Query,
        span: Range,
        text: TextIndex | None = None,
        note: Callable[[Event], None] | None = None,
    ) -> Found:
        """The events of a range that match words. With `note`, call it with each and return none. Raises NoIndex."""
        text = text or await self._index.text()
        left_out = None if wanted.sought.status else await self._index.status_only(text)
        expression = self._index.expression(wanted.visible.groups(), wanted.sought)
        if not expression:
            return Found([], 0, 0)
        check = partial(_checked, wanted, left_out, {}, note)
        return await self._index.search(
            find_events(
                self._journal,
                text,
                expression,
                span,
                check,
                limit=wanted.limit,
                max_bytes=wanted.max_bytes,
            )
        )

    def waiting(
        self, user: str, wanted: Query, empty: Page, seconds: int, document: Callable[[Page], Document]
    ) -> Response:
        """The response with the next events, or none at a timeout. Raises TooManyRequests if too many wait."""
        if self._waiting[user] >= MAX_WAITING_OF_USER or self._waiting.total() >= MAX_WAITING:
            raise TooManyRequests("too many requests wait for events already, please try again without wait")
        later = replace(wanted, after=empty.upto)
        return Response(200, b"", parts=_LongPollBody(self, user, later, empty, seconds, document))

    async def next_events(self, wanted: Query, page: Page) -> Page:
        """Wait for an event that the caller may see."""
        if not wanted.visible.types:
            await trio.sleep_forever()
        pause = FIRST_PAUSE
        while True:
            await self._feed.reached(page.upto + 1)
            page = await self.read(replace(wanted, after=page.upto))
            if page.items or page.following:
                return page
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def next_events_or_stop(self, user: str, wanted: Query, page: Page, seconds: int) -> Page:
        """Like `next_events`, for at most so many seconds, and only while the server runs."""
        self._waiting[user] += 1
        try:
            return await self._look_for(wanted, page, seconds)
        finally:
            self._waiting[user] -= 1
            if not self._waiting[user]:
                del self._waiting[user]

    async def _look_for(self, wanted: Query, page: Page, seconds: int) -> Page:
        found = page

        async def look() -> None:
            nonlocal found
            found = await self.next_events(wanted, page)
            nursery.cancel_scope.cancel()

        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(look)
                await self._stop.wait()
                nursery.cancel_scope.cancel()
        return found


class _LongPollBody:
    """The body of a long poll: one part."""

    def __init__(
        self,
        reader: EventReader,
        user: str,
        wanted: Query,
        page: Page,
        seconds: int,
        document: Callable[[Page], Document],
    ) -> None:
        self._reader = reader
        self._user = user
        self._wanted = wanted
        self._page = page
        self._seconds = seconds
        self._document = document
        self._sent = False

    def __aiter__(self) -> _LongPollBody:
        return self

    async def __anext__(self) -> bytes:
        if self._sent:
            raise StopAsyncIteration
        self._sent = True
        page = await self._reader.next_events_or_stop(self._user, self._wanted, self._page, self._seconds)
        return dump_line(self._document(page))


def _checked(
    wanted: Query,
    left_out: LeftOut | None,
    tracks: dict[bytes, Track],
    note: Callable[[Event], None] | None,
    event: Event,
) -> Hit | None:
    """An event that matches words, if the caller may see it and the filter matches it. `tracks`: one for each scope."""
    scope, change = scope_of(event), change_of(event)
    track = tracks.get(scope)
    if track is None:
        track = tracks[scope] = Track(scope)
    if not wanted.visible.sees(track) or not wanted.sought.name.matches(event.name):
        return None
    if not wanted.sought.matches(event, shows_user=wanted.visible.shows_user(track)):
        return None
    if change == UPDATED and left_out is not None and has(left_out(track.scope), event.offset):
        return None
    if note is not None:
        note(event)
        return Hit(event.offset, track, change, None)
    return Hit(event.offset, track, change, event if wanted.bodies else event._replace(body=b""))


def _after(first: Moment | None) -> Moment | int:
    if first is None:
        return 0
    return first if first.version is None else max(0, first.version - 1)


def _documents(hits: list[Hit], visible: VisibleTypes, *, contents: bool) -> LongWork[list[Document]]:
    items: list[Document] = []
    for at in range(0, len(hits), _TOGETHER):
        items += yield Piece(partial(_some_documents, hits[at : at + _TOGETHER], visible, contents=contents))
    return items


def _add_before(journal: Journal, hits: list[Hit], items: list[Document]) -> LongWork[int]:
    """Add to each item the content before it, if it is still in the journal; returns the bytes of all of them."""
    size = 0
    for hit, item in zip(hits, items, strict=True):
        assert hit.event is not None, "the scan reads events"
        before = yield Piece(partial(_body_at, journal, hit.event.previous))
        if before is not None:
            item["before"] = orjson.Fragment(before)
            size += len(before)
    return size


def _summaries(journal: Journal, hits: list[Hit], visible: VisibleTypes) -> LongWork[list[Document | None]]:
    """Summaries of what events changed; None for deletions. Of fewer events, if they are large."""
    found: list[Document | None] = []
    size = 0
    for hit in hits:
        event = hit.event
        assert event is not None, "the scan reads events"
        if size > MAX_BYTES:
            break
        if event.removed:
            found.append(None)
            continue
        before = yield Piece(partial(_body_at, journal, event.previous))
        read = len(event.body) + len(before or b"")
        size += read
        secret = visible.types[event.type_id].is_secret
        found.append((yield Piece(partial(_summary, event, before, secret=secret), read)))
    return found


def _body_at(journal: Journal, offset: int) -> bytes | None:
    if not offset:
        return None
    with journal.read() as view:
        event = view.event(offset)
    return None if event is None else event.body


def _summary(event: Event, before: bytes | None, *, secret: bool) -> Document:
    if before is None and event.had_before:
        return compacted()
    return summarize(before, event.body, secret=secret)


def _some_documents(hits: list[Hit], visible: VisibleTypes, *, contents: bool) -> list[Document]:
    return [_document(hit, visible, contents=contents) for hit in hits]


def _document(hit: Hit, visible: VisibleTypes, *, contents: bool) -> Document:
    event = hit.event
    assert event is not None, "the scan reads events"
    document = event_document(event)
    if not visible.shows_user(hit.track):
        for name in _WRITER:
            document.pop(name, None)
    document |= {
        "micros": event.time,
        "change": CHANGES[hit.change],
        "type": visible.types[event.type_id].name,
        "namespace": event.namespace,
        "name": event.name,
        "uid": uid_of(event),
        "previous": str(event.previous),
    }
    if contents:
        document["object"] = orjson.Fragment(event.body)
    return document
