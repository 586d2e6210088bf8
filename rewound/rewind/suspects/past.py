"""Reads of the journal for a search of suspects: by object and by type, never of the whole log, and within bounds.

Types have the short names of `actors/rewind/phases.py` here (`deployments.apps`, `roles.rbac`), because the domains of
groups differ between dialects. What the caller may not see is not read, and what the bounds left out is in `left_out`.
The bounds count, and do not measure time, so that the same journal has the same suspects on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from rewound.actors.rewind.contents import parsed
from rewound.actors.rewind.versions import link_at
from rewound.journal import history, keys
from rewound.journal.errors import Damaged
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.view import View

MAX_READ: Final = 30_000  # events read with their contents: some three seconds
MAX_LINKS: Final = 20_000  # newest events of one type that are looked at for objects that changed
MAX_NAMES: Final = 1_000  # objects of one type and namespace whose names are read
_PARSED: Final = 2_000  # contents that stay parsed

Document = dict[str, Any]


class Name(NamedTuple):
    """An object, by the short name of its type."""

    type: str
    namespace: str
    name: str


class Sight(Protocol):
    """What the caller may see."""

    def sees(self, type_id: int, namespace: str) -> bool: ...
    def shows_user(self, type_id: int, namespace: str) -> bool: ...


class Everything:
    """The sight of somebody who can read the folder."""

    def sees(self, type_id: int, namespace: str) -> bool:
        return True

    def shows_user(self, type_id: int, namespace: str) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Change:
    """One event of an object with the content before it."""

    of: Name
    event: Event
    before: Document | None  # None: it did not exist, or retention removed the version
    after: Document | None  # None: it was removed

    @property
    def content(self) -> Document:
        return self.after or self.before or {}


def short(type_name: str) -> str:
    return ".".join(type_name.split(".", 2)[:2])


class Past:
    """The journal up to one version."""

    def __init__(self, journal: Journal, upto: int, sight: Sight) -> None:
        self._journal = journal
        self._sight = sight
        self.upto = upto
        with journal.read() as view:
            types = view.types()
            self.floor = view.floor
        self._types = {short(name): (number, name) for name, number in sorted(types.items(), reverse=True)}
        self._by_id = {number: short_name for short_name, (number, _) in self._types.items()}
        self._parse = lru_cache(_PARSED)(self._parsed)
        self.read = 0
        self._left_out: dict[str, None] = {}

    @property
    def left_out(self) -> list[str]:
        return list(self._left_out)

    def note(self, text: str) -> None:
        """Note what was not looked at."""
        self._left_out[text] = None

    # Types.

    def type_name(self, short_name: str) -> str:
        return self._types.get(short_name, (0, short_name))[1]

    @property
    def types(self) -> list[str]:
        return sorted(self._types)

    def type_of_kind(self, api_version: str, kind: str) -> str:
        """The short type name of a kind; empty for one that the journal does not have."""
        group = api_version.rpartition("/")[0].partition(".")[0]
        lower = kind.lower()
        plurals = (f"{lower}s", f"{lower}es", f"{lower[:-1]}ies", lower)
        suffix = f".{group}" if group else ""
        return next((f"{one}{suffix}" for one in plurals if f"{one}{suffix}" in self._types), "")

    def sees(self, type_: str, namespace: str, *, note: bool = True) -> bool:
        """Whether the journal has the type and the caller may see it there; notes it if not."""
        number = self._types.get(type_, (0, ""))[0]
        if not number:
            return False
        if self._sight.sees(number, namespace):
            return True
        if note:
            where = f" of namespace {namespace}" if namespace else ""
            self.note(f"{self.type_name(type_)}{where}: you may not list them")
        return False

    def user_of(self, one: Name, event: Event) -> tuple[str, str]:
        """The author of an event: user and field manager; empty if the caller may not see them."""
        return (event.user_text, event.manager_text) if self._shows(one) else ("", "")

    def _shows(self, one: Name) -> bool:
        return self._sight.shows_user(self._types[one.type][0], one.namespace)

    def shows_refused(self, type_: str, namespace: str) -> bool:
        """Whether the caller may see refused requests for objects of a type: they name users."""
        number = self._types.get(type_, (0, ""))[0]
        return bool(
            number and self._sight.sees(number, namespace) and self._sight.shows_user(number, namespace)
        )

    # One object.

    def _key(self, one: Name) -> bytes | None:
        if not self.sees(one.type, one.namespace):
            return None
        return keys.find_object(self._types[one.type][0], one.namespace, one.name)

    def newest(self, one: Name, upto: int | None = None) -> Event | None:
        """Its newest event up to a version."""
        return next(iter(self.events(one, 0, self.upto if upto is None else upto, 1)), None)

    def content(self, one: Name, upto: int | None = None) -> Document | None:
        """Its content at a version; None if it did not exist."""
        event = self.newest(one, upto)
        return None if event is None or event.removed else self.parsed(event)

    def last_content(self, one: Name, upto: int | None = None) -> Document | None:
        """Its content, or the last one that it had."""
        event = self.newest(one, upto)
        return None if event is None else self.parsed(event)

    def events(self, one: Name, after: int, upto: int, most: int, *, all_: bool = False) -> list[Event]:
        """Its events after a version and up to another, newest first; `all_`: note if there are more."""
        key = self._key(one)
        if key is None:
            return []
        with self._journal.read() as view:
            found = list(islice(self._descending(view, key, after, upto), most + 1))
        if all_ and len(found) > most:
            self.note(f"{self.type_name(one.type)} {one.name}: only its newest {most} changes in this time")
        return found[:most]

    def _descending(self, view: View, key: bytes, after: int, upto: int) -> Iterator[Event]:
        for offset in history.descending(view, history.of_object(view, key), min(upto, self.upto)):
            if offset <= after or not self._may_read():
                return
            if (event := view.readable_of(key, offset)) is not None:
                yield event

    def _may_read(self) -> bool:
        if self.read >= MAX_READ:
            self.note(f"everything after the first {MAX_READ} events that were read")
            return False
        self.read += 1
        return True

    def changes(self, one: Name, after: int, upto: int, most: int) -> list[Change]:
        """Its changes after a version and up to another, newest first."""
        return [self.change(one, event) for event in self.events(one, after, upto, most, all_=True)]

    def change(self, one: Name, event: Event) -> Change:
        after = None if event.removed else self.parsed(event)
        if event.removed:
            return Change(one, event, self.parsed(event), None)
        return Change(one, event, self.before(event), after)

    def before(self, event: Event) -> Document | None:
        if not event.previous:
            return None
        with self._journal.read() as view:
            previous = view.readable(event.previous)
        return None if previous is None else self.parsed(previous)

    def parsed(self, event: Event) -> Document:
        return self._parse(event.offset, event.body)

    @staticmethod
    def _parsed(_offset: int, body: bytes) -> Document:
        return parsed(body)

    # Several objects.

    def names(self, type_: str, namespace: str, prefix: str = "", most: int = MAX_NAMES) -> list[Name]:
        """The objects of a type and namespace that exist or existed, the last changed first."""
        if not self.sees(type_, namespace):
            return []
        scope = keys.scope(self._types[type_][0], namespace)
        if scope is None:
            return []
        with self._journal.read() as view:
            found = list(islice(self._last_offsets(view, scope + prefix.encode(errors="replace")), most + 1))
        if len(found) > most:
            where = f" of namespace {namespace}" if namespace else ""
            self.note(f"{self.type_name(type_)}{where}: only the first {most} by name")
        found = sorted(found[:most], reverse=True)
        return [Name(type_, *keys.names_of(key)) for _, key in found]

    def _last_offsets(self, view: View, start: bytes) -> Iterator[tuple[int, bytes]]:
        """The last event of each object whose state key begins so, by seeking: an object may have many events."""
        cursor = view.txn.cursor(view.databases.by_object)
        here = start
        while cursor.set_range(here):
            key = bytes(cursor.key())
            if not key.startswith(start):
                return
            own = key[:-9]
            here = keys.by_object(own, keys.MAX_OFFSET)
            beyond = cursor.set_range(keys.by_object(own, min(self.upto, keys.MAX_OFFSET - 1) + 1))
            if cursor.prev() if beyond else cursor.last():
                last = bytes(cursor.key())
                if last[:-9] == own:
                    yield keys.offset_of(last), own

    def changed(self, type_: str, namespace: str | None, after: int, upto: int) -> list[Name]:
        """The objects of a type that changed after a version and up to another, the last changed first.

        `namespace` None: of all namespaces, as far as the caller may see them all.
        """
        if not self.sees(type_, namespace or ""):
            return []
        number = self._types[type_][0]
        found: dict[bytes, None] = {}
        with self._journal.read() as view:
            offsets = history.descending(view, history.of_type(view, number), min(upto, self.upto))
            for count, offset in enumerate(offsets):
                if offset <= after:
                    break
                if count >= MAX_LINKS:
                    self.note(f"{self.type_name(type_)}: only their newest {MAX_LINKS} changes in this time")
                    break
                if (link := link_at(view, number, offset)) is not None:
                    found.setdefault(link.key)
        named = (Name(type_, *keys.names_of(key)) for key in found)
        return [one for one in named if namespace is None or one.namespace == namespace]

    # Times.

    def time_of(self, offset: int) -> int:
        """The time of the newest event up to a version, in microseconds; 0 without one."""
        with self._journal.read() as view:
            found = next(history.descending(view, history.whole_log(view), min(offset, self.upto)), 0)
            try:
                event = view.event(found) if found else None
            except Damaged:
                return 0
        return 0 if event is None else event.time

    def offset_at(self, time: int) -> int:
        with self._journal.read() as view:
            return min(view.offset_at(time), self.upto)
