"""The records of the database meta in a damaged file: names of types, dialect, floor; one checksum covers all.

Nothing else in the file has them, and without them no object can be served. So one flipped bit in them is repaired:
among all single bits there is only one whose change makes the checksum right.
"""

from __future__ import annotations

from collections.abc import Iterator

from journal import keys, records
from journal.recovery.strays import Strays
from journal.recovery.survey import Trees

Meta = dict[bytes, bytes]


def read_meta(trees: Trees, strays: Strays) -> Meta | None:
    """The records; None when they are not what was written and cannot be repaired."""
    stored = {key: value for key, value in trees.meta.items() if key != keys.PROBE}
    if trees.holes["meta"]:
        return _completed(stored, trees, strays)
    if not stored or is_right(stored) or _is_of_an_earlier_release(stored):
        return stored
    repaired = [meta for meta in _with_a_flipped_bit(stored) if is_right(meta)]
    if len(repaired) == 1:
        return repaired[0]
    return None if records.meta_problem(stored, earlier_release=True) else stored


def is_right(meta: Meta) -> bool:
    return meta.get(keys.CHECK) == records.meta_check(meta)


def _is_of_an_earlier_release(meta: Meta) -> bool:
    """Whether there is no checksum, and nothing that could be a damaged one."""
    known = (keys.LAYOUT, keys.DIALECT, keys.FLOOR, keys.CLUSTER_ID)
    return keys.CHECK not in meta and all(key in known or key.startswith(keys.TYPE_PREFIX) for key in meta)


def _completed(meta: Meta, trees: Trees, strays: Strays) -> Meta:
    """What a damaged page had, from other pages: of each record the value that all of them have."""
    for key, values in strays.meta.items():
        if key not in meta and trees.holes["meta"].has(key):
            if key == keys.FLOOR:
                meta[key] = max(values)
            elif len(values) == 1:
                (meta[key],) = values
    return meta


def _with_a_flipped_bit(meta: Meta) -> Iterator[Meta]:
    for key, value in meta.items():
        others = {other: stored for other, stored in meta.items() if other != key}
        for flipped in _flips(key):
            yield {**others, flipped: value}
        for flipped in _flips(value):
            yield {**others, key: flipped}


def _flips(content: bytes) -> Iterator[bytes]:
    for at in range(len(content)):
        for bit in range(8):
            yield content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
