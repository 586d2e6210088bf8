"""Compares two moments for the page: objects that were added, removed and changed between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rewound.actors.errors import BadRequest, Expired
from rewound.actors.rewind.comparison import (
    COMPARISONS,
    MAX_BYTES,
    MAX_NAMES,
    Compared,
    Ends,
    compared_tracks,
    read_ends,
    summary_of_ends,
    with_names,
)
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.moments import Moment, resolve
from rewound.actors.rewind.timeline import Filter, LeftOut
from rewound.gateway.pipeline.context import RequestContext
from rewound.journal.log import Journal
from rewound.journal.view import View
from rewound.rewind.page import parameters
from rewound.rewind.page.events import EventReader
from rewound.rewind.page.index import PageIndex
from rewound.rewind.page.objects import chosen_numbers, matching_objects
from rewound.rewind.page.visibility import VisibleTypes, seen_tracks
from rewound.rewind.turns import run_in_turns

_BYTES_OF_ENTRY: Final = 64  # as `Piece.size` counts: more than 1,000 are sorted in a thread

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Moment:
    version: int
    time: int

    def document(self) -> Document:
        return {"version": str(self.version), "time": self.time}


class ComparisonReader:
    def __init__(
        self,
        journal: Journal,
        indexes: PageIndex,
        events: EventReader,
        now: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._indexes = indexes
        self._index = indexes.timeline
        self._events = events
        self._now = now

    async def read(self, context: RequestContext, visible: VisibleTypes) -> Document:
        """Compare the moments of a request. Raises BadRequest or Expired."""
        given, until = parameters.moment_of(context, "from"), parameters.moment_of(context, "to")
        sought, limit = parameters.filter_of(context), parameters.limit_of(context)
        token = context.parameters.first("continue")
        position = parameters.position_in(token) if token else None
        if given is None:
            raise BadRequest("from: Required value: the version or the time to compare with")
        if not visible.types:
            # A user who may see nothing gets no versions either.
            return {"metadata": {}, "counts": dict.fromkeys(COMPARISONS, 0), "items": []}
        first, last = self._resolved(given, until)
        if position is None:
            position = parameters.Position(0, first.version, last.version)
        await self._indexes.update_all()
        if position.first < self._index.start:
            raise Expired(
                f"from: timelines have the newest events only: choose a moment from version {self._index.start} on"
            )
        without, indexed = await self._indexes.updates_of_status(sought)
        found, searched_from = await self._compared(visible, sought, position, without)
        left_out = 0
        if sought.name and not _is_exact(sought.name.wanted, sought.name.excluded):
            left_out = max(0, len(found) - MAX_NAMES)
            found = await run_in_turns(with_names(self._journal, found, sought.name))
        counts = await run_in_turns(_counted(found))
        items, following = await run_in_turns(
            _items(self._journal, found[position.at : position.at + limit], visible)
        )
        following += position.at
        more = following < len(found)
        document: Document = {
            "from": first.document(),
            "to": last.document(),
            "metadata": {"continue": parameters.position_token(following, position.first, position.last)}
            if more
            else {},
            "counts": {name: counts[number] for number, name in enumerate(COMPARISONS)},
            "items": items,
        }
        if indexed:
            document["indexed"] = indexed
        if left_out:
            document["leftOut"] = left_out
        if searched_from:
            document["searchedFrom"] = str(searched_from)
        return document

    def _resolved(self, first: Moment, last: Moment | None) -> tuple[_Moment, _Moment]:
        with self._journal.read() as view:
            start = self._at(view, first, "from")
            end = self._at(view, last or Moment(version=view.head), "to")
        if start.version > end.version:
            raise BadRequest("from: must not be after to")
        return start, end

    def _at(self, view: View, moment: Moment, name: str) -> _Moment:
        version = resolve(view, moment, self._now(), name)
        if moment.time is not None:
            return _Moment(version, moment.time)
        event = view.event(version, contents=False)
        return _Moment(version, 0 if event is None else event.time)

    async def _compared(
        self,
        visible: VisibleTypes,
        sought: Filter,
        between: parameters.Position,
        left_out: LeftOut | None,
    ) -> tuple[list[Compared], int]:
        tracks = await run_in_turns(seen_tracks(self._index.tracks(), visible))
        matching, searched_from = await matching_objects(
            self._journal, self._events, tracks, visible, sought, between.first, between.last
        )
        chosen = partial(chosen_numbers, names=sought.name, matching=matching)
        async with self._indexes.updating:  # the arrays of the index must not change meanwhile
            found = await run_in_turns(compared_tracks(tracks, between.first, between.last, chosen, left_out))
        return await run_in_turns(_in_order(found, visible)), searched_from


def _is_exact(wanted: tuple[str, ...], excluded: tuple[str, ...]) -> bool:
    """Whether the index alone decides about names."""
    return bool(wanted) and not excluded and not any(name.endswith("*") for name in wanted)


def _in_order(found: list[Compared], visible: VisibleTypes) -> LongWork[list[Compared]]:
    work = partial(sorted, found, key=partial(_order, visible))
    ordered: list[Compared] = yield Piece(work, len(found) * _BYTES_OF_ENTRY)
    return ordered


def _counted(found: list[Compared]) -> LongWork[Counter[int]]:
    counts: Counter[int] = yield Piece(
        lambda: Counter(one.comparison for one in found), len(found) * _BYTES_OF_ENTRY
    )
    return counts


def _order(visible: VisibleTypes, one: Compared) -> tuple[int, str, str, int]:
    return one.comparison, visible.types[one.track.type_id].name, one.track.namespace, one.last


def _items(
    journal: Journal, found: list[Compared], visible: VisibleTypes
) -> LongWork[tuple[list[Document], int]]:
    """The documents of a page, and of how many objects; fewer if the objects are large."""
    items: list[Document] = []
    size = done = 0
    for one in found:
        if size > MAX_BYTES:
            break
        done += 1
        ends: Ends | None = yield Piece(partial(read_ends, journal, one))
        if ends is not None:
            size += ends.size
            items.append((yield Piece(partial(_item, one, ends, visible), ends.size)))
    return items, done


def _item(one: Compared, ends: Ends, visible: VisibleTypes) -> Document:
    seen = visible.types[one.track.type_id]
    item: Document = {
        "change": COMPARISONS[one.comparison],
        "type": seen.name,
        "kind": seen.definition.kind,
        "namespace": one.track.namespace,
        "name": ends.last.name,
        "uid": ends.uid,
    }
    if ends.before is not None:
        item["from"] = str(ends.before.offset)
    if ends.after is not None:
        item["to"] = str(ends.after.offset)
    summary = summary_of_ends(ends, one.comparison, secret=seen.is_secret)
    if summary is not None:
        item["summary"] = summary
    return item
