"""What a watcher asks for: which objects, shown how. Watchers with equal keys get the same bytes and share a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.watch.selection import Selection

Present = Callable[[str, bytes], bytes]  # event type and stored bytes to the document
Told = Callable[[str, bytes], bytes]  # event type and the object as JSON to the document


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Interest:
    key: tuple[Any, ...]
    type_id: int
    type_name: str
    selection: Selection
    present: Present
    first: Present | None  # another form for the first event of a stream; None: like all others
    tell: Told
    bookmark: Callable[[int], bytes] | None  # the document that marks an offset; None: not asked for
    binary: bool = False  # documents are no text
    definition: object = None  # of the kind that is watched: the watch ends when it is no longer served
