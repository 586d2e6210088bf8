"""What rules remember of a stretch of time: events by key, and the changes of objects that several authors write.

All of it is bounded, whatever a journal has: a window that is full forgets the key that was quiet for longest, and
counts what it forgot. Times are those of the events, in microseconds, and never go back.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from rewound.actors.rewind.fights import FOUGHT, fought_fields
from rewound.recording.rules.occurrence import Occurrence

MOST_KEYS: Final = 20_000  # of one window
MOST_ENTRIES: Final = 200_000  # of one window, in all of its keys: about 30 MB
MOST_OF_KEY: Final = 20_000  # entries of one key
_COMPARED: Final = 60  # changes of one object, the newest, whose fields are compared
_SUSPECTS: Final = 1_000  # objects whose fields are compared
LARGEST_COMPARED: Final = 1 << 20  # bytes of an object: comparing larger ones takes tens of milliseconds

Author = tuple[str, str]  # user and field manager


@dataclass(slots=True)
class _Entries:
    times: deque[tuple[int, Any]] = field(default_factory=deque)
    values: Counter[Hashable] | None = None  # how often each value is there, if distinct ones are counted


class Window:
    """Values with times, by key, of the last `length` microseconds."""

    def __init__(
        self,
        length: int,
        *,
        distinct: bool = False,
        most_keys: int = MOST_KEYS,
        most_entries: int = MOST_ENTRIES,
    ) -> None:
        self.length = length
        self._distinct, self._most_keys, self._most_entries = distinct, most_keys, most_entries
        self._keys: OrderedDict[Hashable, _Entries] = (
            OrderedDict()
        )  # the key that was quiet for longest is first
        self._total = 0
        self.forgotten = 0  # keys that were dropped, although the window had entries of them
        self.dropped = 0  # entries of keys that have too many

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: Hashable, time: int, value: Any = None) -> None:
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = _Entries(values=Counter() if self._distinct else None)
        else:
            self._keys.move_to_end(key)
        found.times.append((time, value))
        if found.values is not None:
            found.values[value] += 1
        self._total += 1
        self._prune(found, time)
        if len(found.times) > MOST_OF_KEY:
            self.dropped += 1
            self._drop_first(found)
        self._expire(time)
        while len(self._keys) > self._most_keys or self._total > self._most_entries:
            self._forget_first()

    def count(self, key: Hashable, time: int) -> int:
        """Entries of a key, or its different values."""
        found = self._keys.get(key)
        if found is None:
            return 0
        self._prune(found, time)
        return len(found.times) if found.values is None else len(found.values)

    def entries(self, key: Hashable, time: int) -> deque[tuple[int, Any]]:
        """Times and values of a key, oldest first. Callers must not change them."""
        found = self._keys.get(key)
        if found is None:
            return deque()
        self._prune(found, time)
        return found.times

    def remove(self, key: Hashable) -> None:
        found = self._keys.pop(key, None)
        if found is not None:
            self._total -= len(found.times)

    def _prune(self, found: _Entries, time: int) -> None:
        while found.times and found.times[0][0] <= time - self.length:
            self._drop_first(found)

    def _drop_first(self, found: _Entries) -> None:
        _, value = found.times.popleft()
        self._total -= 1
        if found.values is not None:
            found.values[value] -= 1
            if not found.values[value]:
                del found.values[value]

    def _expire(self, time: int) -> None:
        """Drop keys without entries in the window: two for each that is added, so that none stays for long."""
        for _ in range(2):
            key = next(iter(self._keys))
            found = self._keys[key]
            if found.times and found.times[-1][0] > time - self.length:
                return
            self.remove(key)
            if not self._keys:
                return

    def _forget_first(self) -> None:
        _, found = self._keys.popitem(last=False)
        self._total -= len(found.times)
        self.forgotten += 1


@dataclass(frozen=True, slots=True)
class Fight:
    path: str
    authors: tuple[Author, ...]  # in the order of their first turn
    turns: int


@dataclass(slots=True)
class _Object:
    compared: int = 0  # the newest version whose change is in `fields`
    fields: dict[str, deque[tuple[int, Author]]] = field(default_factory=dict)  # times and authors of turns


class FieldFights:
    """Finds fields that several authors set in turn within a window.

    Fields are compared only if enough changes of the whole object alternate between authors: no field can have more
    turns than its object.
    """

    def __init__(self, length: int, turns: int = FOUGHT) -> None:
        self.length, self._turns = length, turns
        self._changes = Window(length)
        self._suspects: OrderedDict[Hashable, _Object] = OrderedDict()
        self._suspects_forgotten = 0
        self._last: tuple[int, list[Fight]] = (0, [])  # of the newest event: several rules may ask for it

    @property
    def forgotten(self) -> int:
        return self._changes.forgotten + self._suspects_forgotten

    def add(self, occurrence: Occurrence) -> list[Fight]:
        """Add an event; returns the fights in which it is a turn."""
        event = occurrence.event
        if event.offset == self._last[0]:
            return self._last[1]
        found = self._add(occurrence) if event.previous and not occurrence.exists else []
        self._last = event.offset, found
        return found

    def _add(self, occurrence: Occurrence) -> list[Fight]:
        event, key = occurrence.event, occurrence.object_key
        if event.removed:
            self._changes.remove(key)
            self._suspects.pop(key, None)
            return []
        self._changes.add(key, event.time, (event.offset, event.previous, occurrence.author))
        changes = self._changes.entries(key, event.time)
        if len(changes) < self._turns or _turns_of(changes) < self._turns:
            return []
        suspect = self._suspects.setdefault(key, _Object())
        self._suspects.move_to_end(key)
        if len(self._suspects) > _SUSPECTS:
            self._suspects.popitem(last=False)
            self._suspects_forgotten += 1
        newer = [one for one in list(changes)[-_COMPARED:] if one[1][0] > suspect.compared]
        for time, (offset, previous, author) in newer:
            self._compare(occurrence, suspect, time, (offset, previous, author))
        return self._fights(suspect, event.time)

    def _compare(
        self, occurrence: Occurrence, suspect: _Object, time: int, change: tuple[int, int, Author]
    ) -> None:
        offset, previous, author = change
        suspect.compared = offset
        newest = offset == occurrence.event.offset
        after = occurrence.event.body if newest else occurrence.contents(offset)
        before = occurrence.before if newest else occurrence.contents(previous)
        if not before or not after or max(len(before), len(after)) > LARGEST_COMPARED:
            return
        for path in fought_fields(before, after, secret=occurrence.kind.is_secret):
            turns = suspect.fields.setdefault(path, deque(maxlen=_COMPARED))
            if not turns or turns[-1][1] != author:
                turns.append((time, author))

    def _fights(self, suspect: _Object, time: int) -> list[Fight]:
        found: list[Fight] = []
        for path, turns in list(suspect.fields.items()):
            while turns and turns[0][0] <= time - self.length:
                turns.popleft()
            if not turns:
                del suspect.fields[path]
                continue
            authors = tuple(dict.fromkeys(author for _, author in turns))
            if len(turns) >= self._turns and len(authors) > 1 and turns[-1][0] == time:
                found.append(Fight(path, authors, len(turns)))
        return found


def _turns_of(changes: deque[tuple[int, Any]]) -> int:
    turns, last = 0, None
    for _, (_, _, author) in changes:
        turns += author != last
        last = author
    return turns
