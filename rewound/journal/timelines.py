"""Timelines: how the histories of a cluster's servers branch at promotions.

The first history of a cluster has no record here. Every promotion of a standby, and every restored backup, starts a
new timeline after its newest event:

    leader A    1 2 3 4 5 6 7             events 6 and 7 never reached B
    standby B   1 2 3 4 5
    promoted              6' 7' 8'        timelines of B: (id, start 5)

Two journals have the same history up to an offset if they have the same timelines that start before it. So A may
follow B if its newest event is 5 or less; at 7 it has events that B does not have. Ids are random, so that two
standbys that were both promoted differ; with sequential numbers they would look the same.
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

import msgpack

from rewound.journal import fields, keys


class Timeline(NamedTuple):
    id: bytes  # 16 bytes
    start: int  # the events after this offset were written on it, up to the start of the next one

    def __str__(self) -> str:
        return f"{uuid.UUID(bytes=self.id)} from {self.start}"


Timelines = tuple[Timeline, ...]  # the oldest first


def encode_timelines(timelines: Timelines) -> bytes:
    packed: bytes = msgpack.packb([list(one) for one in timelines])
    return packed


def decode_timelines(value: bytes) -> Timelines:
    """The timelines in a record; none without it. Raises ValueError naming the wrong field."""
    return checked_timelines(msgpack.unpackb(value)) if value else ()


def checked_timelines(value: Any) -> Timelines:
    """Check unpacked timelines. Raises ValueError naming the wrong field."""
    found: list[Timeline] = []
    before = -1
    for number, one in enumerate(fields.sequence("timelines", value)):
        where = f"timelines[{number}]"
        if len(fields.sequence(where, one)) != 2:
            raise ValueError(f"{where}: expected an id and a start, found {fields.described(one)}")
        start = fields.number(f"{where}.start", one[1], before + 1, keys.LARGEST_OFFSET)
        found.append(Timeline(fields.octets(f"{where}.id", one[0], 16), start))
        before = start
    return tuple(found)


def before(timelines: Timelines, offset: int) -> Timelines:
    """The timelines that events up to an offset may belong to."""
    return tuple(one for one in timelines if one.start < offset)


def branch(timelines: Timelines, offset: int) -> Timelines:
    """The timelines of a history that continues on its own after an offset."""
    return (*before(timelines, offset), Timeline(uuid.uuid4().bytes, offset))
