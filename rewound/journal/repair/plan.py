"""Decides what a recovered folder contains: the newest provable version of each object, and the events that are
saved.

An event is in three trees: events, the index by type and the index by object. If a page of one tree is damaged, the
other two say what was on it. So a record from outside of the trees is used only where each tree either has a hole or
agrees. Whatever is known to have existed and is found nowhere is lost.

An old version needs all events up to it. If events are lost, the retention floor of the new folder rises to the first
version after which none is missing; below it every object has one event, as after a compaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rewound.journal import keys
from rewound.journal.repair.damaged_file import FoundLink, FoundRow, Place, Strays, Trees


class Saved(NamedTuple):
    """An event of the new folder, taken from an event or, if that is lost, from the row of the object's state."""

    offset: int
    key: bytes
    previous: int
    removed: bool
    place: Place
    from_row: bool


class Lost(NamedTuple):
    """An object whose newest version is lost."""

    key: bytes
    newest: int  # the newest version known to have existed
    restored: int  # the older version in the new folder; 0 if none


@dataclass(slots=True)
class Plan:
    floor: int = 0
    head: int = 0  # the highest version known to have existed
    saved: list[Saved] = field(default_factory=list)  # ascending
    # Older versions of objects, to be written as new versions.
    renewed: list[Saved] = field(default_factory=list)
    objects: int = 0
    lost_objects: list[Lost] = field(default_factory=list)
    lost_events: list[int] = field(default_factory=list)  # ascending
    from_rows: list[int] = field(default_factory=list)  # events restored without user, verb and time
    unknown: bool = False  # more may be lost, about which nothing is known


def decide(trees: Trees, strays: Strays, floor: int, head: int, *, newest: bool) -> Plan:
    """Decide what the new folder gets.

    `head` is a version known to have existed; `newest`: the trees are certainly of the newest version.
    """
    evidence = _Evidence(trees, strays, newest=newest)
    # If `head` is above everything found, commits after that are lost.
    plan = Plan(floor=floor, unknown=evidence.unknown or head > max(evidence.known, default=0))
    plan.head = max(head, trees.head, *evidence.known, *(row.offset for row in trees.rows.values()), 0)
    chosen = {key: evidence.choose(key, offsets) for key, offsets in evidence.by_key().items()}
    _note_losses(plan, chosen)
    _save_events(plan, evidence, chosen)
    return plan


class _Choice(NamedTuple):
    """The newest known version of an object, and the one that can be restored."""

    newest: int
    saved: Saved | None  # None if it was removed, or nothing of it is left
    lost: bool


class _Evidence:
    """Everything known to have existed, and where its contents are."""

    def __init__(self, trees: Trees, strays: Strays, *, newest: bool) -> None:
        self._trees, self._newest = trees, newest
        self.events = dict(trees.events)
        self.rows: dict[bytes, dict[int, FoundRow]] = {
            key: {row.offset: row} for key, row in trees.rows.items()
        }
        self.known: dict[int, FoundLink] = dict(trees.links)
        self._add_strays(strays)
        for event in self.events.values():
            self.known[event.offset] = FoundLink(event.key, event.previous, event.removed)
        self._add_rows(strays)
        self._add_objects()
        self.unknown = bool(trees.holes["by_type"] and trees.holes["events"])

    def _hole(self, database: str, key: bytes) -> bool:
        return self._trees.holes[database].has(key)

    def _possible(self, key: bytes, offset: int) -> bool:
        """Whether an event that is not in the trees may have existed nevertheless."""
        if not self._newest and offset > self._trees.head:
            return True
        if not self._hole("events", keys.pack_offset(offset)):
            return False
        link = self._trees.links.get(offset)
        if link is not None:
            return link.key == key
        return self._hole("by_type", keys.by_type(int.from_bytes(key[:2], "big"), offset))

    def _add_strays(self, strays: Strays) -> None:
        for offset, copies in strays.events.items():
            if offset not in self.events and len(copies) == 1 and self._possible(copies[0].key, offset):
                self.events[offset] = copies[0]
        for offset, link in strays.links.items():
            if offset not in self.known and self._possible(link.key, offset):
                self.known[offset] = link

    def _add_rows(self, strays: Strays) -> None:
        for key, row in self._trees.rows.items():
            self.known.setdefault(row.offset, FoundLink(key, None, False))
        for key, versions in strays.rows.items():
            for offset, row in versions.items():
                known = self.known.get(offset)
                if known.key == key if known is not None else self._possible(key, offset):
                    self.known.setdefault(offset, FoundLink(key, None, False))
                    self.rows.setdefault(key, {}).setdefault(offset, row)

    def _add_objects(self) -> None:
        for offset, key in self._trees.objects.items():
            if offset not in self.known and self._possible(key, offset):
                self.known[offset] = FoundLink(key, None, None)

    def by_key(self) -> dict[bytes, list[int]]:
        """The known versions of each object, ascending."""
        found: dict[bytes, list[int]] = {}
        for offset in sorted(self.known):
            found.setdefault(self.known[offset].key, []).append(offset)
        return found

    def content(self, key: bytes, offset: int) -> Saved | None:
        """A version of an object, from its event or its row."""
        event = self.events.get(offset)
        if event is not None:
            return Saved(offset, key, event.previous, event.removed, event.place, from_row=False)
        row = self.rows.get(key, {}).get(offset)
        if row is None:
            return None
        previous = self.known[offset].previous
        return Saved(offset, key, -1 if previous is None else previous, False, row.place, from_row=True)

    def choose(self, key: bytes, offsets: list[int]) -> _Choice:
        newest = offsets[-1]
        if self.known[newest].removed or self._gone(key, newest):
            return _Choice(newest, None, lost=False)
        for offset in reversed(offsets):
            if self.known[offset].removed:
                break  # older versions belong to another object of the same name
            saved = self.content(key, offset)
            if saved is not None:
                return _Choice(newest, saved, lost=offset != newest)
        return _Choice(newest, None, lost=True)

    def _gone(self, key: bytes, newest: int) -> bool:
        """Whether the state is readable there and does not contain the object."""
        if newest in self.events or key in self._trees.rows or self._hole("state", key):
            return False
        return newest <= self._trees.head or self._newest


def _note_losses(plan: Plan, chosen: dict[bytes, _Choice]) -> None:
    for key, choice in chosen.items():
        if choice.lost:
            plan.lost_objects.append(Lost(key, choice.newest, choice.saved.offset if choice.saved else 0))
            if choice.saved is not None:
                plan.renewed.append(choice.saved)
    plan.lost_objects.sort()
    plan.objects = sum(choice.saved is not None for choice in chosen.values())


def _save_events(plan: Plan, evidence: _Evidence, chosen: dict[bytes, _Choice]) -> None:
    versions = _Versions(evidence, chosen)
    plan.lost_events = versions.lost
    plan.floor = versions.floor(max((plan.floor, *versions.lost)))
    at_floor = versions.at(plan.floor).values()
    plan.saved = [*sorted(at_floor), *(saved for saved in versions.contents if saved.offset > plan.floor)]
    plan.from_rows = [saved.offset for saved in plan.saved if saved.from_row]


class _Versions:
    """All known versions, ascending, and the state at each."""

    def __init__(self, evidence: _Evidence, chosen: dict[bytes, _Choice]) -> None:
        self._chosen = chosen
        self._known = [
            (offset, link, evidence.content(link.key, offset))
            for offset, link in sorted(evidence.known.items())
        ]
        self.contents = [saved for _, _, saved in self._known if saved is not None]
        self.lost = [offset for offset, _, saved in self._known if saved is None]

    def at(self, floor: int) -> dict[bytes, Saved]:
        """The newest version of each object up to a floor; if that one is lost, the one before it."""
        found: dict[bytes, Saved] = {}
        for offset, link, saved in self._known:
            if offset > floor:
                break
            if link.removed:
                found.pop(link.key, None)
            elif saved is not None:
                found[link.key] = saved
        for key, choice in self._chosen.items():
            if choice.saved is None and choice.newest <= floor:
                found.pop(key, None)
        return found

    def floor(self, lowest: int) -> int:
        """The lowest floor at or above `lowest` after which every event follows its object's event before it."""
        while broken := self._broken(lowest):
            lowest = broken
        return lowest

    def _broken(self, floor: int) -> int:
        """The last event above a floor that does not follow the state of its object; 0 if all do."""
        latest = {key: saved.offset for key, saved in self.at(floor).items()}
        broken = 0
        for saved in self.contents:
            if saved.offset <= floor:
                continue
            if saved.previous != latest.get(saved.key, 0):
                broken = saved.offset
            if saved.removed:
                latest.pop(saved.key, None)
            else:
                latest[saved.key] = saved.offset
        return broken
