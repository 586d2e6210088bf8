"""Compares a copy with the recording, object by object, at the end of a writable replay.

    recorded   the events after the fork that the copy replaced: with --play those of --without, otherwise all
    here       what clients wrote to the copy

Writes of the server itself count on neither side. An object is the same if it ends the same: what the server maintains
(uid, versions, times of creation, managedFields) is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from rewound.actors.rewind.difference import Change, describe, difference, escaped
from rewound.actors.rewind.documents import event_document
from rewound.actors.store.document import decode
from rewound.journal.log import Journal
from rewound.journal.recording import Recording
from rewound.journal.records import Event, Row
from rewound.recording.replay.recorded_writes import Applied, Skipped, is_of_server

_MAINTAINED = frozenset(
    {
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.creationTimestamp",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.selfLink",
    }
)

Key = tuple[int, str, str]  # type id, namespace, name


def _pattern(field: str) -> str:
    """A field with wildcards, as an expression that does not backtrack into what an inner wildcard has matched.

    Not fnmatch: paths have brackets of their own.
    """
    first, *rest = map(re.escape, field.split("*"))
    if not rest:
        return first
    *inner, last = rest
    return first + "".join(f"(?>.*?{part})" for part in inner if part) + ".*" + last


class Ignored(Collection[str]):
    """The kinds (leases, events.*) and fields that are not compared; `difference` asks for fields. * is a wildcard."""

    def __init__(self, kinds: Sequence[str] = (), fields: Sequence[str] = ()) -> None:
        self.kinds, self.fields = tuple(kinds), tuple(fields)
        patterns = "|".join(map(_pattern, fields))
        self._matches = re.compile(patterns, re.DOTALL).fullmatch if fields else None

    def is_kind(self, type_name: str) -> bool:
        names = type_name, type_name.partition(".")[0]
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.kinds)

    def __contains__(self, path: object) -> bool:
        return path in _MAINTAINED or (self._matches is not None and bool(self._matches(str(path))))

    def __iter__(self) -> Iterator[str]:
        return iter((*_MAINTAINED, *self.fields))

    def __len__(self) -> int:
        return len(_MAINTAINED) + len(self.fields)


NOTHING_IGNORED = Ignored()


@dataclass(slots=True)
class ObjectComparison:
    type_name: str
    namespace: str
    name: str
    recorded: list[Event] = field(default_factory=list)
    here: list[Event] = field(default_factory=list)
    before: dict[str, Any] | None = None  # at the end of the recording
    after: dict[str, Any] | None = None  # at the end of the copy
    ignored: Ignored = NOTHING_IGNORED

    @property
    def changes(self) -> list[Change]:
        """The changes from the recording to the copy."""
        if self.before is None or self.after is None:
            return []
        return difference(self.before, self.after, self.ignored)

    @property
    def same(self) -> bool:
        return (self.before is None) == (self.after is None) and not self.changes

    def document(self) -> dict[str, Any]:
        return {
            "type": self.type_name,
            "namespace": self.namespace,
            "name": self.name,
            "same": self.same,
            "recorded": {"writes": [event_document(one) for one in self.recorded], "object": self.before},
            "here": {"writes": [event_document(one) for one in self.here], "object": self.after},
            "changes": [change.document() for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    fork: int  # the version up to which both are the same
    end: int  # of the recording, as far as it was compared
    objects: tuple[ObjectComparison, ...]
    skipped: tuple[Skipped, ...] = ()
    unfinished: tuple[str, ...] = ()  # sentences that say why it ended early

    @property
    def same(self) -> bool:
        return all(one.same for one in self.objects)

    @property
    def failures(self) -> list[str]:
        """Why a job that expects no difference fails; none if it succeeds."""
        found = [] if self.same else [_summary(self)]
        if count := len(self.skipped):
            found.append(f"{count} recorded write{'s were' if count > 1 else ' was'} not applied")
        return [*found, *self.unfinished]

    def document(self) -> dict[str, Any]:
        return {
            "kind": "ReplayComparison",
            "fork": str(self.fork),
            "end": str(self.end),
            "same": self.same,
            "failures": self.failures,
            "objects": [one.document() for one in self.objects],
            "notApplied": [{**event_document(one.event), "why": one.why} for one in self.skipped],
        }


def compare(
    recording: Recording,
    copy: Journal,
    fork: int,
    end: int,
    applied: Applied,
    replaced: Callable[[Event], bool],
    ignored: Ignored = NOTHING_IGNORED,
) -> Comparison:
    """Compare. `replaced(event)`: whether the copy's clients make the write of a recorded event instead."""
    names = {number: name for name, number in copy.types().items()}
    objects: dict[Key, ObjectComparison] = {}

    def found(event: Event) -> ObjectComparison:
        key = event.type_id, event.namespace, event.name
        if key not in objects:
            objects[key] = ObjectComparison(
                names.get(event.type_id, ""), event.namespace, event.name, ignored=ignored
            )
        return objects[key]

    left_out = {number for number, name in names.items() if ignored.is_kind(name)}

    with recording.read_all() as view:
        for event in _until(view.events(fork), end):
            if event.type_id not in left_out and replaced(event) and not is_of_server(event):
                found(event).recorded.append(_without_content(event))
    with copy.read() as view:
        for event in view.events(fork):
            own = event.offset not in applied.offsets and not is_of_server(event)
            if own and event.type_id not in left_out:
                found(event).here.append(_without_content(event))
    with recording.read_all() as past, copy.read() as present:
        at_end = past.at(end)
        for key, one in objects.items():
            one.before, one.after = _content(at_end.get(*key)), _content(present.get(*key))
    ordered = sorted(objects.values(), key=lambda one: (one.type_name, one.namespace, one.name))
    skipped = tuple(one for one in applied.skipped if one.event.type_id not in left_out)
    return Comparison(fork, end, tuple(ordered), skipped)


def _until(events: Iterable[Event], end: int) -> Iterable[Event]:
    for event in events:
        if event.offset > end:
            return
        yield event


def _without_content(event: Event) -> Event:
    """The event without its content: there may be many."""
    return event._replace(body=b"", facts=b"")


def _content(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else decode(row.body)


def report(comparison: Comparison) -> list[str]:
    """The lines of a report; the last one is a summary."""
    lines = [line for one in comparison.objects for line in _object(one)]
    lines += _skipped(comparison.skipped)
    return [*map(escaped, lines), _summary(comparison)]


def _object(one: ObjectComparison) -> Iterator[str]:
    where = f"{one.namespace}/{one.name}" if one.namespace else one.name
    yield f"{'=' if one.same else '~'} {one.type_name} {where}{_ending(one)}"
    yield f"    recorded  {_writes(one.recorded)}"
    yield f"    here      {_writes(one.here)}"
    for change in one.changes:
        yield f"    {change.sign} {describe(change)}"


def _ending(one: ObjectComparison) -> str:
    if one.same:
        return " ends the same" if one.after is not None else " is gone on both sides"
    if one.before is None:
        return " exists only here"
    if one.after is None:
        return " exists only in the recording"
    return ""


def _writes(events: list[Event]) -> str:
    if not events:
        return "nothing"
    who = ", ".join(
        dict.fromkeys(f"{one.user} with {one.manager}" if one.manager else one.user for one in events)
    )
    first, last = events[0].offset, events[-1].offset
    versions = f"version {first}" if first == last else f"versions {first} to {last}"
    return f"{len(events)} write{'s' if len(events) > 1 else ''} by {who} ({versions})"


def _skipped(skipped: tuple[Skipped, ...]) -> Iterator[str]:
    for one in skipped:
        event = one.event
        where = f"{event.namespace}/{event.name}" if event.namespace else event.name
        yield f"! version {event.offset}, {event.verb} of {where} by {event.user}, was not applied: {one.why}"


def _summary(comparison: Comparison) -> str:
    span = f"from version {comparison.fork} to {comparison.end}"
    objects = len(comparison.objects)
    if comparison.same:
        return f"no difference {span}: {objects} object{'s' if objects != 1 else ''} compared"
    different = sum(not one.same for one in comparison.objects)
    return f"{different} of {objects} object{'s' if objects != 1 else ''} differ{'s' if different == 1 else ''} {span}"
