"""How what was written to a copy differs from what happened: object by object, at the end of a writable replay.

    recorded   the events after the fork that the copy replaced: with --play those of --without, otherwise all
    here       what clients wrote to the copy

Writes of the server itself count on neither side. An object is the same if it ends the same: what the server maintains
(uid, versions, times of creation, managedFields) is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from actors.rewind.difference import Change, difference
from actors.rewind.documents import event_document
from actors.store.document import decode
from gateway.replay.recorded_writes import Applied, Skipped, is_of_server
from journal.log import Journal
from journal.recording import Recording
from journal.records import Event, Row

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


@dataclass(slots=True)
class ObjectComparison:
    type_name: str
    namespace: str
    name: str
    recorded: list[Event] = field(default_factory=list)
    here: list[Event] = field(default_factory=list)
    before: dict[str, Any] | None = None  # at the end of the recording
    after: dict[str, Any] | None = None  # at the end of the copy

    @property
    def changes(self) -> list[Change]:
        """From what happened to what happened here."""
        if self.before is None or self.after is None:
            return []
        return difference(self.before, self.after, _MAINTAINED)

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

    @property
    def same(self) -> bool:
        return all(one.same for one in self.objects)

    def document(self) -> dict[str, Any]:
        return {
            "kind": "ReplayComparison",
            "fork": str(self.fork),
            "end": str(self.end),
            "same": self.same,
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
) -> Comparison:
    """`replaced`: whether a recorded event is one that the copy's clients were to make instead."""
    names = {number: name for name, number in copy.types().items()}
    objects: dict[Key, ObjectComparison] = {}

    def found(event: Event) -> ObjectComparison:
        key = event.type_id, event.namespace, event.name
        if key not in objects:
            objects[key] = ObjectComparison(names.get(event.type_id, ""), event.namespace, event.name)
        return objects[key]

    with recording.read_all() as view:
        for event in _until(view.events(fork), end):
            if replaced(event) and not is_of_server(event):
                found(event).recorded.append(_light(event))
    with copy.read() as view:
        for event in view.events(fork):
            if event.offset not in applied.offsets and not is_of_server(event):
                found(event).here.append(_light(event))
    with recording.read_all() as past, copy.read() as present:
        at_end = past.at(end)
        for key, one in objects.items():
            one.before, one.after = _content(at_end.get(*key)), _content(present.get(*key))
    ordered = sorted(objects.values(), key=lambda one: (one.type_name, one.namespace, one.name))
    return Comparison(fork, end, tuple(ordered), tuple(applied.skipped))


def _until(events: Iterable[Event], end: int) -> Iterable[Event]:
    for event in events:
        if event.offset > end:
            return
        yield event


def _light(event: Event) -> Event:
    """Without its content: there may be many."""
    return event._replace(body=b"", facts=b"")


def _content(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else decode(row.body)
