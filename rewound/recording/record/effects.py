"""The effects of audited requests on single objects, and their order: bounds for the versions that the log lacks.

A response shows the version of a write. A delete, or a write whose response is not in the log, has none: it got a
version that no other request has, between two bounds.

    after    the versions that were returned before the request arrived, and those of the same object before it
    before   the next version of the object that comes after it

Lines are in the order in which responses ended, which says little if one request lasts long: during a deletecollection
others create its objects again, and their lines come first. The uid decides then: an object is deleted after everything
that has its uid, and before everything that has the next one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from rewound.actors.store.document import decode
from rewound.journal.keys import MAX_OFFSET
from rewound.recording.record.changes import Change
from rewound.recording.record.kinds import RecordedKind
from rewound.recording.record.requests import Request
from rewound.recording.record.writer import Written

Key = tuple[str, str, str]  # type, namespace, name

_MARK: Final = b'"deletionTimestamp"'
_SET_BY_MARK: Final = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation")


@dataclass(slots=True, eq=False)
class Effect:
    """The effect of a request on one object: the content `change`, or a removal, or something not in the log.

    Without a name it is that of a deletecollection, whose objects the log does not name.
    """

    kind: RecordedKind
    namespace: str
    name: str
    request: Request
    uid: str = ""
    change: Change | None = None
    removed: bool = False
    seen: Change | None = None  # the object before it was deleted, as the response shows it
    mark: Effect | None = None  # for a removal: what the same request did before, which is to mark the object
    number: int | None = None  # the version
    after: int = 0  # the version is higher than this
    before: int = MAX_OFFSET  # and lower than this
    known: int = 0  # the highest version that was returned before the request arrived
    known_well: int = 0  # the same a second earlier: clocks of servers differ
    shown: set[Key] = field(default_factory=set)  # objects for which this request has separate effects
    # For a collection: objects created between its arrival and its response, with their uids.
    created_during: dict[Key, str] = field(default_factory=dict)
    observed: bool = False  # the request only shows `change`: another one made it, perhaps not in the log
    guessed: bool = False  # whether the request made it: another one may have
    assumed: bool = False  # whether it made it at all: a deletecollection does not say what it deleted
    dropped: bool = False  # another effect has what it did

    @property
    def key(self) -> Key:
        return self.kind.type_name, self.namespace, self.name

    @property
    def place(self) -> tuple[RecordedKind, str, str]:
        return self.kind, self.namespace, self.name

    @property
    def deletes(self) -> bool:
        return self.removed or self.request.deletes

    def covers(self, key: Key) -> bool:
        """Whether it may affect an object: the one of its name, or one of its collection."""
        type_name, namespace, name = self.key
        return type_name == key[0] and (name == key[2] if name else True) and namespace in ("", key[1])


class ObjectVersions:
    """The versions of each object in the window, by uid; they bound the versions of deletes."""

    def __init__(self, effects: Iterable[Effect]) -> None:
        self._versions: dict[Key, list[tuple[int, str, bool]]] = {}  # number, uid, marked as deleted
        self._unmarked: dict[
            tuple[Key, str], int
        ] = {}  # arrival of the last request that shows the object unmarked
        self._removed: set[tuple[Key, str]] = set()  # removed by a request for the object itself
        for one in effects:
            if one.number is not None and one.uid:
                marked = one.change is not None and _MARK in one.change.body
                self._versions.setdefault(one.key, []).append((one.number, one.uid, marked))
                if not marked and not one.observed:
                    last = self._unmarked.get((one.key, one.uid), 0)
                    self._unmarked[one.key, one.uid] = max(last, one.request.received)
            elif one.removed and one.uid:
                self._removed.add((one.key, one.uid))

    def is_removed_by_another(self, effect: Effect) -> bool:
        """Whether another request removed an object, and not the collection."""
        in_collection = effect.request.verb == "deletecollection" and not effect.removed
        return in_collection and (effect.key, effect.uid) in self._removed

    def was_deleted(self, effect: Effect) -> bool:
        """Whether no later request contradicts a delete that is only assumed."""
        return self._unmarked.get((effect.key, effect.uid), 0) <= effect.request.time

    def bound(self, effect: Effect, written: Written | None) -> bool:
        """Set both bounds of a delete by the versions of its uid; returns False if there are none."""
        found = self._versions.get(effect.key, ())
        own = [(number, marked) for number, uid, marked in found if uid == effect.uid]
        if written is not None and written.uid == effect.uid:
            own.append((written.offset, False))
        if effect.seen is not None and effect.seen.number is not None:
            own.append((effect.seen.number, False))
        if not own or not effect.uid:
            return False
        last = max(number for number, _ in own)
        marks = [number for number, marked in own if marked]
        effect.before = min(
            (number for number, uid, _ in found if uid != effect.uid and number > last), default=MAX_OFFSET
        )
        if marks and not effect.removed:
            # It marked the object, which others changed afterwards.
            effect.before = min(marks)
        lower = max((number for number, _ in own if number < effect.before), default=0)
        effect.after = min(max(effect.after, lower), effect.before - 1)
        return True


def bound_by_log(effects: list[Effect]) -> None:
    """Set the upper bound of effects without a version: the object's lowest version that is later in the log."""
    following: dict[Key, int] = {}
    for effect in reversed(effects):
        if effect.number is not None:
            following[effect.key] = min(effect.number, following.get(effect.key, effect.number))
        else:
            effect.before = following.get(effect.key, MAX_OFFSET)


class TakenVersions:
    """The versions that requests have, and the free ones."""

    def __init__(self, effects: Iterable[Effect]) -> None:
        self._sorted = sorted({one.number for one in effects if one.number is not None})
        # For each taken version a later one, with none free in between; searches shorten the chains (union-find).
        self._next = {number: number + 1 for number in self._sorted}

    def first_free(self, after: int) -> int:
        number = after + 1
        passed = []
        while number in self._next:
            passed.append(number)
            number = self._next[number]
        for one in passed:
            self._next[one] = number
        return number

    def take(self, number: int) -> None:
        self._next[number] = number + 1

    def free_from(self, number: int) -> int:
        """How many versions are free, from this one up to the next one that a request has."""
        position = bisect_right(self._sorted, number)
        return (self._sorted[position] if position < len(self._sorted) else MAX_OFFSET) - number


def settle_writers(window: list[Effect]) -> None:
    """Keep one effect of each version, that of its writer; other requests returned it and changed nothing.

    It gets the place of the first of them in the log. If several requests may be the writer, it is a guess.
    """
    shown: dict[tuple[Key, int], list[Effect]] = {}
    for effect in window:
        if effect.number is not None and effect.change is not None:
            shown.setdefault((effect.key, effect.number), []).append(effect)
    for (_, number), same in shown.items():
        if len(same) == 1:
            continue
        first = same[0]
        for other in same[1:]:
            other.dropped = True
        writers = [one for one in same if not one.observed and one.request.sent_version != str(number)]
        writers = [one for one in writers if one.request.creates] or writers
        earliest = min((one.request.time for one in writers), default=0)
        writers = [one for one in writers if one.request.received <= earliest]
        if writers:
            first.request, first.observed, first.known = writers[0].request, False, writers[0].known
            first.guessed = len(writers) > 1 or writers[0].guessed


def settle_removals(window: list[Effect], head: int, *, named: bool) -> bool:
    """Settle which version a delete returned that marked an object and removed it at once.

    Servers before 1.26 return that of the mark, later ones that of the removal. `named`: assume the later ones; this
    returns False once a delete returned a version that a write before it had. The version of the mark is the one
    before, unless somebody else has that: then only the removal is known. `head` is the last version written.
    """
    written = {(one.uid, one.number) for one in window if one.change is not None and not one.mark}
    named = named and not any(
        one.seen is not None and one.request.verb == "delete" and (one.uid, one.seen.number) in written
        for one in window
    )
    taken = {one.number for one in window}
    for removal in window if named else ():
        mark = removal.mark
        if mark is None or mark.dropped or mark.number is None or mark.change is None:
            continue
        removal.number, removal.mark = mark.number, None
        before = mark.number - 1
        if before in taken or before <= head:
            mark.dropped = True
            continue
        taken.add(before)
        mark.number, mark.change.version = before, str(before)
    return named


def settle_marks(window: list[Effect]) -> None:
    """Find the version at which a deletecollection marked an object as deleted, from later responses.

    The response of the collection has the object without the mark. Only the first delete marks it.
    """
    marked: dict[tuple[Key, str], Effect] = {}
    makers: dict[tuple[Key, str], list[Effect]] = {}
    for effect in window:
        place = effect.key, effect.uid
        if effect.dropped or not effect.uid:
            continue
        if effect.number is not None and effect.change is not None and _MARK in effect.change.body:
            if place not in marked or effect.number < (marked[place].number or 0):
                marked[place] = effect
        elif _may_mark(effect):
            makers.setdefault(place, []).append(effect)
    for place, candidates in makers.items():
        if (first := marked.get(place)) is not None and (first.observed or first.request.verb == "delete"):
            _settle_mark(first, [one for one in candidates if one.request.received <= first.request.time])


def _may_mark(effect: Effect) -> bool:
    """Whether it is the effect of a collection on an object that was not marked before."""
    unknown = effect.number is None and not effect.removed
    return unknown and effect.seen is not None and _MARK not in effect.seen.body


def _settle_mark(mark: Effect, makers: list[Effect]) -> None:
    if not makers:
        return
    if not mark.observed:
        earlier = [one for one in makers if one.request.time < mark.request.received]
        if not earlier:
            mark.guessed = True  # the delete marked it, or a collection that was deleted at the same time
            for one in makers:
                one.dropped = True
            return
        makers = earlier
    assert mark.change is not None and makers[0].seen is not None
    mark.request, mark.observed, mark.known = makers[0].request, False, 0
    mark.guessed = len(makers) > 1 or not _differ_by_mark(mark.change, makers[0].seen)
    for one in makers:
        one.dropped = True


def _differ_by_mark(after: Change, before: Change) -> bool:
    documents = [decode(one.body) for one in (after, before)]
    for one in documents:
        one["metadata"] = {name: value for name, value in one["metadata"].items() if name not in _SET_BY_MARK}
    return documents[0] == documents[1]


def with_revealed(effects: list[Effect]) -> Iterator[Effect]:
    """Add the content of effects without a version, where a later response reveals it.

    A request that returns a version from before its arrival changed nothing: the version is that of the effect before.
    """
    unknown: dict[Key, Effect] = {}
    returned: set[tuple[Key, int]] = set()  # written by others, or revealed before
    revealed: dict[int, Effect] = {}
    more: dict[int, list[Effect]] = {}
    for effect in effects:
        if effect.number is None:
            unknown[effect.key] = effect
            continue
        is_known = (effect.key, effect.number) in returned
        returned.add((effect.key, effect.number))
        if is_known or effect.change is None or effect.number > effect.known:
            unknown.pop(effect.key, None)
            continue
        type_name, namespace, _ = effect.key
        keys = (effect.key, (type_name, namespace, ""), (type_name, "", ""))
        before = next((unknown[key] for key in keys if key in unknown), None)
        if (
            before is None
            or before.removed
            or before.uid not in ("", effect.uid)
            or before.after >= effect.number
        ):
            effect.observed |= effect.number <= effect.known_well  # its writer is not in the window
            continue
        before.shown.add(effect.key)
        shown = Effect(*effect.place, before.request, effect.uid, effect.change, number=effect.number)
        if before.name:
            revealed[id(before)] = shown
            del unknown[effect.key]
        else:
            more.setdefault(id(before), []).append(shown)
        revealed[id(effect)] = shown
    for effect in effects:
        shown_now = revealed.get(id(effect), effect)
        if shown_now is effect or effect.number is None:
            yield shown_now
        yield from more.get(id(effect), ())


class _Waiting:
    """Effects that wait for one free number. If it is taken, all of them wait for the next one."""

    __slots__ = ("effects", "position", "turn")

    def __init__(self, position: int) -> None:
        self.position = position
        self.turn = 0  # count of the turn of the first of them; earlier turns are obsolete
        self.effects: list[tuple[int, int, int, Effect]] = []  # a heap: upper bound, order, count


class Turns:
    """Yields effects and changes in the order of their versions; one without, after everything before it in the log.

    `order` is the place in the log. An effect without a version waits for earlier ones of the same object that have
    none either, because its result depends on them. One without a name concerns all objects of its namespace.
    It also waits until everything before the first free version is written. Of several that could get that version, the
    one with the lowest upper bound gets it: the others find room later. They move on together: a deletecollection may
    have 10,000 objects, and moving each of them past each version would take quadratic time.
    """

    def __init__(self, first_free: Callable[[int], int]) -> None:
        """`first_free(n)` is the first free version after n and after everything that is written."""
        self._first_free = first_free
        self._heap: list[tuple[int, int, int, int, Effect | Change | _Waiting]] = []
        self._count = 0
        self.unresolved = 0  # effects without a version that are not resolved yet
        self._waiting: dict[int, _Waiting] = {}  # by position
        # Positions and uids of effects without a version, by object and order; and the last change of each object.
        self._open: dict[Key, dict[int, tuple[int | _Waiting, str]]] = {}
        # Effects in the order of the log. The first of them, whose order is `_active`, is in the heap until it is
        # resolved; the next one follows its changes.
        self._queue: deque[tuple[int, Effect]] = deque()
        self._active = -1
        self._reached = 0

    def add(self, number: int, order: int, one: Effect | Change) -> None:
        if isinstance(one, Change):
            self._open.setdefault(one.key, {})[order] = 2 * number, one.uid
            if order == self._active:
                self._reached = max(self._reached, 2 * number + 1)
        self._push(2 * number, order, one)

    def add_unnumbered(self, effect: Effect, order: int, *, in_log_order: bool) -> None:
        self.unresolved += 1
        if in_log_order:
            self._queue.append((order, effect))
            if self._active < 0:
                self._start_next()
            return
        self._open_at(2 * effect.after + 1, order, effect)

    def _start_next(self) -> None:
        if not self._queue:
            self._active = -1
            return
        self._active, effect = self._queue.popleft()
        self._reached = max(2 * effect.after + 1, self._reached)
        effect.after = self._reached // 2
        self._open_at(self._reached, self._active, effect)

    def _open_at(self, position: int, order: int, effect: Effect) -> None:
        self._open.setdefault(effect.key, {})[order] = position, effect.uid
        self._push(position, order, effect)

    def __iter__(self) -> Iterator[tuple[int, Effect | Change]]:
        while self._heap:
            position, _, order, count, one = heappop(self._heap)
            if isinstance(one, _Waiting):
                if one.turn == count:
                    yield from self._first_of(one)
            elif isinstance(one, Effect) and one.number is None:
                later, free = self._later(one, order)
                if max(later, free) <= position:
                    yield from self._resolved(one, order)
                elif free > later:
                    self._wait(one, order, free)
                else:
                    self._open_at(later, order, one)
            else:
                if self._open.get(one.key, {}).get(order, (-1,))[0] == position:
                    del self._open[one.key][order]
                yield order, one

    def _resolved(self, effect: Effect, order: int) -> Iterator[tuple[int, Effect]]:
        self.unresolved -= 1
        self._open[effect.key].pop(order, None)
        yield order, effect
        if order == self._active:
            self._start_next()

    def _push(self, position: int, order: int, one: Effect | Change) -> None:
        self._count += 1
        bound = one.before if isinstance(one, Effect) else 0
        heappush(self._heap, (position, bound, order, self._count, one))

    # Effects that wait for a free number.

    def _wait(self, effect: Effect, order: int, position: int) -> None:
        waiting = self._waiting.get(position)
        if waiting is None:
            waiting = self._waiting[position] = _Waiting(position)
        self._count += 1
        self._join(waiting, (effect.before, order, self._count, effect))
        if waiting.effects[0][2] == self._count:
            self._push_first(waiting)

    def _join(self, waiting: _Waiting, one: tuple[int, int, int, Effect]) -> None:
        _, order, _, effect = one
        heappush(waiting.effects, one)
        self._open.setdefault(effect.key, {})[order] = waiting, effect.uid

    def _push_first(self, waiting: _Waiting) -> None:
        """Queue the one with the lowest bound."""
        if waiting.effects:
            bound, order, _, _ = waiting.effects[0]
            self._count += 1
            waiting.turn = self._count
            heappush(self._heap, (waiting.position, bound, order, self._count, waiting))
        else:
            del self._waiting[waiting.position]

    def _first_of(self, waiting: _Waiting) -> Iterator[tuple[int, Effect]]:
        """Take the one with the lowest bound, which gets the version or waits longer."""
        _, order, _, effect = waiting.effects[0]
        later, free = self._later(effect, order)
        if later <= waiting.position < free:
            self._move(waiting, free)
            return
        heappop(waiting.effects)
        self._push_first(waiting)
        if max(later, free) <= waiting.position:
            yield from self._resolved(effect, order)
        elif free > later:
            self._wait(effect, order, free)
        else:
            self._open_at(later, order, effect)

    def _move(self, waiting: _Waiting, position: int) -> None:
        """Make all wait for the next version that is free for the first: no other is free in between."""
        del self._waiting[waiting.position]
        others = self._waiting.get(position)
        if others is not None:
            if len(others.effects) > len(waiting.effects):
                waiting, others = others, waiting
            for one in others.effects:
                self._join(waiting, one)
            others.effects, others.turn = [], 0
        waiting.position = position
        self._waiting[position] = waiting
        self._push_first(waiting)

    def _later(self, effect: Effect, order: int) -> tuple[int, int]:
        """The position after what an effect waits for, but at least that of the first free version."""
        earlier = self._earlier(effect, order)
        effect.after = max(effect.after, earlier // 2)
        free = 2 * self._first_free(effect.after) - 1 if effect.name else 0
        return earlier + 1, free

    def _earlier(self, effect: Effect, order: int) -> int:
        """The last position of earlier effects that may concern the same object; -1 if there are none."""
        type_name, namespace, name = effect.key
        keys: Iterable[Key] = (effect.key, (type_name, namespace, ""), (type_name, "", ""))
        if not name:
            keys = [one for one in self._open if one[0] == type_name and namespace in ("", one[1])]
        found = (item for key in keys for item in self._open.get(key, {}).items())
        return max(
            (
                place.position if isinstance(place, _Waiting) else place
                for other, (place, uid) in found
                if other < order and (not uid or not effect.uid or uid == effect.uid)
            ),
            default=-1,
        )
