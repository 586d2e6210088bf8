"""What a watcher requested: which objects, in which encoding. Watchers with equal keys share a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.watch.selection import Selection

Encode = Callable[[str, bytes], bytes]  # event type and stored object -> watch event
Wrap = Callable[[str, bytes], bytes]  # event type and object as JSON, as clients see it -> watch event


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Interest:
    key: tuple[Any, ...]
    type_id: int
    type_name: str
    selection: Selection
    encode: Encode
    encode_first: Encode | None  # for the first event of a stream, where it differs (a Table with columns)
    wrap: Wrap
    bookmark: Callable[[int], bytes] | None  # offset -> BOOKMARK event; None: not requested
    binary: bool = False  # events are protobuf, not text
    definition: object = None  # of the watched kind: the watch ends when that is no longer served
