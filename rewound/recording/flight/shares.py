"""Who takes the room of a journal: bytes of events by namespace, and who gives up their oldest ones when it is full.

The figures are those of the file: a scan of the index by object, which a recorder repeats now and then, and always
before it removes events. So they are right after a kill, and a write costs nothing. What counts is what could be
removed: all events but the newest one of an object that exists. Cluster-scoped objects count by kind.

A namespace takes too much if it has more than `HOG` times an equal share of all. The largest pays first, with its
oldest events, down to that share; within it, the largest objects pay first. If nobody takes too much, or what they have
too much is not enough, everybody's oldest events go (`retention`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappushpop
from typing import Any, Final, NamedTuple

from rewound.journal import keys
from rewound.journal.cuts import scope_of
from rewound.journal.log import Journal
from rewound.journal.view import View

HOG: Final = 1.5
SLICES: Final = 256  # of the time, for each of which it is known how much a share has of it
MOST_OBJECTS: Final = 64  # the largest of a share, of which it is known how much they have
STEP: Final = 500  # index entries of one transaction: about a millisecond
LEAST: Final = 1 << 20  # bytes: what has less is never too large
_PAGE: Final = 4096
_IN_PAGE: Final = _PAGE // 2 - 32  # longer values have pages of their own
_OVERHEAD: Final = 40  # of the headers of three nodes, and the places of them


class Owner(NamedTuple):
    """A namespace; or a kind that has none, as the number of its type."""

    namespace: str
    type_id: int = 0


class Large(NamedTuple):
    """An object and the bytes of its events that could be removed."""

    size: int
    key: bytes


@dataclass(slots=True)
class Share:
    owner: Owner
    size: int = 0  # bytes of events that could be removed
    events: int = 0
    objects: int = 0
    types: set[int] = field(default_factory=set)
    slices: array[int] = field(default_factory=lambda: array("Q", bytes(8 * SLICES)))
    largest: list[Large] = field(default_factory=list)  # a heap; the smallest of them first

    def add(self, key: bytes, size: int, events: int) -> None:
        self.size += size
        self.events += events
        self.objects += 1
        self.types.add(int.from_bytes(key[:2], "big"))
        if len(self.largest) < MOST_OBJECTS:
            self.largest.append(Large(size, key))
            if len(self.largest) == MOST_OBJECTS:
                heapify(self.largest)
        elif size > self.largest[0].size:
            heappushpop(self.largest, Large(size, key))


@dataclass(slots=True)
class Shares:
    """The result of a scan."""

    base: int  # the offsets that the slices divide
    head: int
    by_owner: dict[Owner, Share] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.by_owner.values())

    def largest(self) -> list[Share]:
        return sorted(self.by_owner.values(), key=lambda one: -one.size)

    def slice_of(self, offset: int) -> int:
        return max(0, min(SLICES - 1, (offset - self.base) * SLICES // max(1, self.head - self.base + 1)))

    def end_of(self, number: int) -> int:
        """The newest offset of a slice."""
        span = self.head - self.base + 1
        return self.base + ((number + 1) * span + SLICES - 1) // SLICES - 1


class Cutting(NamedTuple):
    """The oldest events of a scope, which are to be dropped: those up to an offset, or so many bytes of an object."""

    scope: bytes
    upto: int = 0
    size: int = 0


def measure(journal: Journal) -> Iterator[Shares]:
    """Scan the journal in steps of a transaction each; yields the same object, which is complete after the last."""
    with journal.read() as view:
        found = Shares(view.floor, view.head)
    scan = _Scan(found)
    position: bytes | None = b""
    while position is not None:
        with journal.read() as view:
            position = scan.step(view, position)
        yield found


class _Scan:
    def __init__(self, found: Shares) -> None:
        self._found = found
        self._key = b""  # of the object whose events are being counted
        self._sizes: list[tuple[int, int]] = []  # its slices and bytes

    def step(self, view: View, position: bytes) -> bytes | None:
        """Count some events; return where to continue."""
        txn, events = view.txn, view.databases.events
        cursor = txn.cursor(view.databases.by_object)
        if not cursor.set_range(position):
            self._end_object(view)
            return None
        slice_of, count = self._found.slice_of, STEP
        for found in cursor.iternext(values=False):
            entry = bytes(found)
            if not count:
                return entry
            count -= 1
            if entry[:-9] != self._key:
                self._end_object(view)
                self._key = entry[:-9]
            value = txn.get(entry[-8:], db=events)
            if value is not None:
                self._sizes.append((slice_of(keys.offset_of(entry)), room(len(value), len(entry))))
        self._end_object(view)
        return None

    def _end_object(self, view: View) -> None:
        key, sizes = self._key, self._sizes
        self._key, self._sizes = b"", []
        if not sizes:
            return
        if view.txn.get(key, db=view.databases.state) is not None:
            del sizes[-1]
        type_id, (namespace, _) = int.from_bytes(key[:2], "big"), keys.names_of(key)
        owner = Owner(namespace) if namespace else Owner("", type_id)
        share = self._found.by_owner.get(owner)
        if share is None:
            share = self._found.by_owner[owner] = Share(owner)
        share.add(key, sum(size for _, size in sizes), len(sizes))
        for number, size in sizes:
            share.slices[number] += size


def room(value: int, entry: int) -> int:
    """About the bytes of pages that an event takes with its index entries."""
    inside = value + 8 if value <= _IN_PAGE else -(-(value + 16) // _PAGE) * _PAGE
    return inside + 2 * entry + _OVERHEAD


def plan(found: Shares, amount: int) -> list[Cutting]:
    """What to cut so that about so many bytes become free, as far as shares are too large; the largest pays first."""
    if len(found.by_owner) == 1:
        # One namespace takes room from no other, but one object in it may take it from the other objects.
        [share] = found.by_owner.values()
        return _of_share(found, share, amount, alone=True)
    payers, fair = too_large(found), found.size // max(1, len(found.by_owner))
    paid = _levelled([one.size for one in payers], fair, amount)
    return [
        cutting
        for share, size in zip(payers, paid, strict=True)
        for cutting in _of_share(found, share, size, alone=False)
    ]


def too_large(found: Shares) -> list[Share]:
    """The namespaces that take too much, the largest first."""
    fair = found.size // max(1, len(found.by_owner))
    return [one for one in found.largest() if one.size > max(LEAST, HOG * fair)]


def _levelled(sizes: list[int], least: int, amount: int) -> list[int]:
    """How much each pays of an amount: the largest first, until they are equal; none goes below `least`."""
    paid = [0] * len(sizes)
    for number in range(len(sizes)):
        following = max(least, sizes[number + 1]) if number + 1 < len(sizes) else least
        step = min(max(0, sizes[0] - paid[0] - following), -(-amount // (number + 1)))
        for at in range(number + 1):
            paid[at] += step
        amount -= step * (number + 1)
        if amount <= 0:
            break
    return paid


def _of_share(found: Shares, share: Share, amount: int, *, alone: bool) -> list[Cutting]:
    """What to cut of a namespace: its largest objects pay first, until they are equal."""
    objects, least = sorted(share.largest, reverse=True), 0
    if alone:  # everybody's horizon moves rather than that of objects of a usual size
        least = share.size // max(1, share.objects)
        objects = [large for large in objects if share.objects > 1 and large.size > max(LEAST, HOG * least)]
    paid = _levelled([large.size for large in objects], least, amount)
    cuttings = [
        Cutting(large.key + b"\0", size=size) for large, size in zip(objects, paid, strict=True) if size
    ]
    left = amount - sum(paid)
    if left > 0 and not alone:
        upto = _oldest(found, share, left)
        cuttings += [
            Cutting(scope_of(type_id, share.owner.namespace), upto) for type_id in sorted(share.types)
        ]
    return cuttings


def _oldest(found: Shares, share: Share, size: int) -> int:
    """The offset up to which a namespace has at least so many bytes."""
    for number, in_slice in enumerate(share.slices):
        size -= in_slice
        if size <= 0:
            return found.end_of(number)
    return found.head


SHOWN: Final = 10  # shares in documents and metrics
SHOWN_OBJECTS: Final = 3


def documents(found: Shares, types: Mapping[int, str]) -> list[dict[str, Any]]:
    """The largest shares, for the status of a recorder."""
    whole = max(1, found.size)
    return [
        {
            "namespace": share.owner.namespace,
            "kind": types.get(share.owner.type_id, ""),
            "bytes": share.size,
            "percent": round(100 * share.size / whole, 1),
            "events": share.events,
            "objects": [
                {
                    "kind": types.get(int.from_bytes(key[:2], "big"), ""),
                    "name": keys.names_of(key)[1],
                    "bytes": size,
                }
                for size, key in sorted(share.largest, reverse=True)[:SHOWN_OBJECTS]
            ],
        }
        for share in found.largest()[:SHOWN]
    ]


def end_of(view: View, cutting: Cutting) -> int:
    """The offset up to which events are dropped; the newest one up to it stays."""
    left, upto = cutting.size, cutting.upto
    cursor = view.txn.cursor(view.databases.by_object)
    if left and cursor.set_range(cutting.scope):
        for view_of_key in cursor.iternext(values=False):
            entry = bytes(view_of_key)
            if entry[:-8] != cutting.scope:
                break
            upto = keys.offset_of(entry)
            if left <= 0:
                break
            value: Any = view.txn.get(entry[-8:], db=view.databases.events)
            left -= 0 if value is None else room(len(value), len(entry))
    return upto
