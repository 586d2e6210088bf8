"""Fields that several authors set in turn: whoever looks for a conflict of controllers finds it here.

All objects of a range are looked at, the most changed first: a few of the changes of each show whether several authors
write it, and only of those that have several are the changed fields compared.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from rewound.actors.rewind.fights import FOUGHT, fought_fields
from rewound.actors.rewind.lifelines import Identity, Life, Placed, events_of
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.timeline import NOTHING, LeftOut, kept
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.rewind.page.visibility import VisibleTypes

_OBJECTS: Final = 2000  # that are looked at, the most changed first
_WINDOW: Final = 4  # consecutive changes, at the start, in the middle and at the end
_SUSPECTS: Final = 20  # objects whose changed fields are compared
_COMPARED: Final = 60  # changes of each, the newest
_SHOWN: Final = 5
_NOBODY: Final = Identity("", "", "")

Document = dict[str, Any]


@dataclass(slots=True)
class _Field:
    authors: dict[tuple[str, str], None] = field(default_factory=dict)  # in the order of appearance
    last: tuple[str, str] = ("", "")
    turns: int = 0
    event: Event | None = None  # the newest


def find_fights(
    journal: Journal,
    lives: list[Life],
    first: int,
    last: int,
    left_out: LeftOut | None,
    visible: VisibleTypes,
    scopes: set[bytes],
) -> LongWork[list[Document]]:
    """The fields with the most turns first. `scopes`: of tracks whose authors the caller may see."""
    busy = [life for life in lives if life.changes >= FOUGHT and life.track.scope in scopes]
    busy.sort(key=lambda life: -life.changes)
    busy = busy[:_OBJECTS]
    offsets = yield from events_of([Placed(life, _NOBODY) for life in busy], first, last)
    suspects: list[tuple[Life, array[int]]] = []
    for life, own in zip(busy, offsets, strict=True):
        without = NOTHING if left_out is None else left_out(life.track.scope)
        changes = array("Q", [one for one, counts in zip(own, kept(own, without), strict=True) if counts])
        if len((yield Piece(partial(_authors, journal, _windows(changes))))) > 1:
            suspects.append((life, changes))
            if len(suspects) == _SUSPECTS:
                break
    found: list[Document] = []
    for life, changes in suspects:
        seen = visible.types[life.track.type_id]
        fields: dict[str, _Field] = {}
        for offset in changes[-_COMPARED:]:
            yield Piece(partial(_add, journal, offset, fields, secret=seen.is_secret))
        found += (
            _document(seen.name, path, one)
            for path, one in fields.items()
            if one.turns >= FOUGHT and len(one.authors) > 1
        )
    return sorted(found, key=lambda one: -int(one["turns"]))[:_SHOWN]


def _windows(offsets: Sequence[int]) -> Sequence[int]:
    if len(offsets) <= 3 * _WINDOW:
        return offsets
    middle = len(offsets) // 2
    return [*offsets[:_WINDOW], *offsets[middle : middle + _WINDOW], *offsets[-_WINDOW:]]


def _authors(journal: Journal, offsets: Sequence[int]) -> set[tuple[str, str]]:
    with journal.read() as view:
        events = (view.event(offset, contents=False) for offset in offsets)
        return {(one.user, one.manager) for one in events if one is not None and one.previous}


def _add(journal: Journal, offset: int, fields: dict[str, _Field], *, secret: bool) -> None:
    with journal.read() as view:
        event = view.event(offset)
        before = view.event(event.previous) if event is not None and event.previous else None
    if event is None or before is None or event.removed:
        return
    author = event.user, event.manager
    for path in fought_fields(before.body, event.body, secret=secret):
        one = fields.setdefault(path, _Field())
        if author != one.last:
            one.turns += 1
        one.authors.setdefault(author)
        one.last, one.event = author, event


def _document(type_name: str, path: str, one: _Field) -> Document:
    event = one.event
    assert event is not None, "a field has an event"
    return {
        "type": type_name,
        "namespace": event.namespace,
        "name": event.name,
        "field": path,
        "turns": one.turns,
        "version": str(event.offset),
        "micros": event.time,
        "authors": [{"user": user, "fieldManager": manager} for user, manager in one.authors],
    }
