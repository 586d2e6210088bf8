"""Cuts: drops the oldest events of one namespace or object that took more than its share of the disk.

The caller chooses whose and how far (`recording/flight/shares.py`). Every event up to an offset goes, except the newest
one of each object that exists there, which from now on follows nothing:

    events  1 create a   2 create b   3 update a   4 update a   5 update a        a cut up to 4
    left                 2 create b                4 update a   5 update a        4 follows nothing, and is marked

So the journal is one in which the rest had never been written, as after `thinning`: replay, `verify`, export, recovery
and copies need no exception. What exists now, everything after the cut, and all other objects stay exact. Readers must
not take the event that is left for a creation, nor a missing object for one that did not exist; so there are three
marks, stored with what is dropped:

- the event that is left says so in its reason (`Event.is_cut`): history and blame say that the versions before it were
  dropped;
- the record `cuts` of meta names the namespaces and objects: reads of them before the cut fail with the reason
  (`ReadTransaction.cut_of`), lists warn;
- the mark of the type (`thinned`, as after `forget`): watches from before it get 410, and followers and backups that
  were away for longer start over.

Snapshots before the cut refer to events that are gone, so they go too. An event that cannot be read is left, with those
before it: one damaged record must not keep a disk from being emptied elsewhere.

Rejected: a retention floor for each object, whose events follow removed ones: every reader would have to expect that.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from rewound.journal import failpoints, keys, records, snapshots
from rewound.journal.environment import Databases
from rewound.journal.errors import Damaged, NewerLayout
from rewound.journal.log import Journal
from rewound.journal.records import Cut, Event, Thinned
from rewound.journal.thinning import put_mark

# Events looked at in one transaction, each deleted with three deletions: other writes wait some milliseconds.
BATCH: Final = 256
# Places in the record `cuts`. Beyond it, objects become their namespace, and the oldest namespaces are left to the mark
# of their type.
MOST_CUTS: Final = 200
MOST_OBJECTS: Final = 20  # of one namespace and type

_failpoint = failpoints.from_environment("journal.cut")


def scope_of(type_id: int, namespace: str, name: str = "") -> bytes:
    """Where to cut: all objects of a type in a namespace, or one object."""
    scope = keys.pack_namespace(type_id, namespace)
    return scope + name.encode() + b"\0" if name else scope


def cut(journal: Journal, scope: bytes, upto: int, *, max_events: int = BATCH) -> Iterator[int]:
    """Drop the events of a scope up to an offset, one transaction per step; yields the number dropped by each."""
    with journal.read() as view:
        upto = min(upto, view.head - 1)
    databases = journal.environment.databases
    position: bytes | None = scope
    while position is not None:
        step = partial(_step, databases, scope, position, upto, max_events)
        position, dropped = journal.environment.write(step)
        yield dropped


def _step(
    databases: Databases, scope: bytes, position: bytes, upto: int, count: int, txn: Any
) -> tuple[bytes | None, int]:
    """Cut the objects from a position in by_object on; return where to continue, and how many events it dropped."""
    dropped = size = 0
    following: bytes | None = position
    while count > 0 and following is not None:
        found = _object_at(txn, databases, scope, following)
        if found is None:
            following = None
            break
        key, start = found
        offsets = list(_upto(txn, databases, key, start, upto, max(2, count)))
        count -= len(offsets) + 1
        gone = _dispensable(txn, databases, key, offsets)
        size += sum(_delete(txn, databases, key, offset) for offset in gone)
        dropped += len(gone)
        # The newest one of a part is looked at again, as the oldest one of the next.
        whole = len(offsets) < 2 or count > 0 or not gone
        following = key + b"\1" if whole else keys.by_object(key, offsets[-1])
    if dropped:
        _remove_snapshots(txn, databases, upto)
    _put_marks(txn, databases, scope, Cut(upto, dropped, size))
    if _failpoint is not None:
        _failpoint("before-commit")
    return following, dropped


def _object_at(txn: Any, databases: Databases, scope: bytes, position: bytes) -> tuple[bytes, int] | None:
    """The key of the first object of the scope at or after a position, and the offset there."""
    cursor = txn.cursor(databases.by_object)
    if not cursor.set_range(position):
        return None
    found = bytes(cursor.key())
    return (found[:-9], keys.offset_of(found)) if found.startswith(scope) else None


def _upto(txn: Any, databases: Databases, key: bytes, start: int, upto: int, count: int) -> Iterator[int]:
    cursor, prefix = txn.cursor(databases.by_object), key + b"\0"
    if cursor.set_range(keys.by_object(key, start)):
        for found in islice(cursor.iternext(values=False), count):
            offset = keys.offset_of(found)
            if found[:-8] != prefix or offset > upto:
                return
            yield offset


def _dispensable(txn: Any, databases: Databases, key: bytes, offsets: list[int]) -> list[int]:
    """All of these events of an object but the newest one, which then follows nothing, or that too if it removed it."""
    value = txn.get(keys.pack_offset(offsets[-1]), db=databases.events) if offsets else None
    if value is None:
        return []
    try:
        newest = records.decode_event(offsets[-1], value)
    except (Damaged, NewerLayout):
        return []
    if newest.removed:
        return offsets
    if newest.previous:
        _store(txn, databases, key, records.with_cut(newest._replace(previous=0)))
    return offsets[:-1]


def _delete(txn: Any, databases: Databases, key: bytes, offset: int) -> int:
    packed = keys.pack_offset(offset)
    value = txn.pop(packed, db=databases.events)
    txn.delete(key[:2] + packed, db=databases.by_type)
    txn.delete(keys.by_object(key, offset), db=databases.by_object)
    return 0 if value is None else len(value)


def _store(txn: Any, databases: Databases, key: bytes, event: Event) -> None:
    packed = keys.pack_offset(event.offset)
    type_key = key[:2] + packed
    txn.put(packed, records.encode_event(packed, event), db=databases.events)
    txn.put(type_key, records.encode_link(type_key, key, 0, event.removed), db=databases.by_type)


def _remove_snapshots(txn: Any, databases: Databases, upto: int) -> None:
    for offset, number in list(snapshots.chunks_in(txn, databases)):
        if offset < upto:
            txn.delete(snapshots.chunk_key(offset, number), db=databases.snapshots)


def _put_marks(txn: Any, databases: Databases, scope: bytes, step: Cut) -> None:
    if not step.dropped:
        return
    marks = records.decode_cuts(bytes(txn.get(keys.CUTS, b"", db=databases.meta)))
    before = marks.pop(scope, Cut(0, 0, 0))
    marks[scope] = _joined(before, step)
    records.put_meta(txn, databases.meta, {keys.CUTS: records.encode_cuts(bounded(marks))})
    put_mark(txn, databases, int.from_bytes(scope[:2], "big"), Thinned(step.upto, step.dropped, whole=True))


def _joined(one: Cut, other: Cut) -> Cut:
    return Cut(max(one.upto, other.upto), one.dropped + other.dropped, one.size + other.size)


def bounded(marks: dict[bytes, Cut]) -> dict[bytes, Cut]:
    """Marks of at most so many places: objects of a namespace become the namespace if they are many."""
    kept: dict[bytes, Cut] = {}
    objects: dict[bytes, list[bytes]] = {}
    for scope in marks:
        objects.setdefault(scope[: scope.index(b"\0", 2) + 1], []).append(scope)
    for namespace, scopes in objects.items():
        upto = marks[namespace].upto if namespace in marks else -1
        many = len(scopes) > MOST_OBJECTS or len(marks) > MOST_CUTS
        for scope in scopes:
            place = namespace if many or marks[scope].upto <= upto else scope
            kept[place] = _joined(kept.get(place, Cut(0, 0, 0)), marks[scope])
    if len(kept) > MOST_CUTS:
        kept = dict(sorted(kept.items(), key=lambda item: item[1].upto)[-MOST_CUTS:])
    return kept
