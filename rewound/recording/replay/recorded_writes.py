"""Applies the recorded writes of others to a copy after the fork: `rewound replay --writable --play`.

Each recorded event is applied as a write of its user, with only its changes (`merged`) and without admission, which it
passed when it was recorded. Objects keep their uids. An event that does not fit any more, because the object is gone or
was created by another client, is reported and skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import trio

from rewound.actors.controllers.client import MANAGER
from rewound.actors.controllers.cluster_role_aggregation import MANAGER as AGGREGATION_MANAGER
from rewound.actors.identity import SERVER_USER
from rewound.actors.messages import Object
from rewound.actors.store.document import (
    api_version_of,
    decode,
    encode_unversioned,
    facts_of,
    without_version,
)
from rewound.actors.store.proposal import Proposal
from rewound.gateway.store import Store
from rewound.journal.recording import Recording
from rewound.journal.records import Event, Row
from rewound.recording.replay.player import FULL_SPEED, ForkClock

BATCH_EVENTS, BATCH_BYTES = 256, 1 << 20
_ACCOUNTS = "system:serviceaccount:"
_MANAGERS = frozenset({MANAGER, AGGREGATION_MANAGER})  # of controllers that this server runs


@dataclass(frozen=True, slots=True)
class Skipped:
    """A recorded event that was not applied."""

    event: Event
    why: str


@dataclass(frozen=True, slots=True)
class Writers:
    """The users or field managers whose recorded writes are left out; `*` is a wildcard."""

    without: tuple[str, ...] = ()
    server_writes: bool = True  # the server runs its own controllers: their recorded writes are left out too
    idle_accounts: frozenset[str] = frozenset()  # of the controllers that it does not run

    def leaves_out(self, event: Event) -> bool:
        if self.server_writes and is_of_server(event) and not self._is_idle(event):
            return True
        return any(
            fnmatchcase(event.user, pattern) or fnmatchcase(event.manager, pattern)
            for pattern in self.without
        )

    def _is_idle(self, event: Event) -> bool:
        return event.user.startswith(_ACCOUNTS) and event.user.rpartition(":")[2] in self.idle_accounts


def is_of_server(event: Event) -> bool:
    """Whether the server itself wrote it, or one of the controllers that it runs."""
    if event.user == SERVER_USER:
        return True
    return event.user.startswith(_ACCOUNTS) and event.manager in _MANAGERS


@dataclass(slots=True)
class Applied:
    """Statistics of the recorded events so far."""

    offsets: set[int] = field(default_factory=set)  # of the events in the copy
    skipped: list[Skipped] = field(default_factory=list)
    reached: int = 0  # the recorded version up to which events were applied or left out
    complete: bool = False  # all were handled


class RecordedWrites:
    def __init__(
        self,
        recording: Recording,
        store: Store,
        clock: ForkClock,
        writers: Writers,
        applied: Applied,
        *,
        to: int,
        speed: float,
        until: Callable[[Event], bool] | None = None,
    ) -> None:
        self._recording, self._store, self._clock = recording, store, clock
        self._writers, self._applied = writers, applied
        self._to, self._speed, self._until = to, speed, until

    async def run(self) -> None:
        """Apply events at their times, up to the last."""
        for event in self._events():
            if self._speed != FULL_SPEED:
                await trio.sleep(max(0.0, (event.time - self._clock.now()) / 1e6 / self._speed))
            self._clock.advance_to(event.time)
            if not self._writers.leaves_out(event):
                await self._apply(event)
            self._applied.reached = event.offset
            if self._until is not None and self._until(event):
                self._applied.complete = True
                return
        self._applied.complete = True

    def _events(self) -> Iterator[Event]:
        recording = self._recording
        while batch := recording.following(BATCH_EVENTS, BATCH_BYTES):
            for event in batch:
                if event.offset > self._to:
                    return
                yield event
            recording.position = batch[-1].offset

    async def _apply(self, event: Event) -> None:
        proposals: list[Proposal] = []

        def propose() -> list[Proposal]:
            proposal = self._proposal(event)
            if isinstance(proposal, Proposal):
                proposals.append(proposal)
            elif proposal:
                self._applied.skipped.append(Skipped(event, proposal))
            return proposals

        await self._store.committer.commit_at_once(propose)
        for one in proposals:
            assert one.event is not None
            self._applied.offsets.add(one.event.offset)

    def _proposal(self, event: Event) -> Proposal | str:
        """The write to the copy, or why there is none, or "" if the object is already like that."""
        with self._store.journal.read() as view:
            row = view.get(event.type_id, event.namespace, event.name)
        if event.removed:
            if row is None:
                return "the object is gone already"
            return self._write(event, row.offset, row.facts, without_version(row.body, row.offset))
        unversioned = without_version(event.body, event.offset)
        if event.previous == 0:
            if row is not None:
                return "the object exists already"
            return self._write(event, 0, event.facts, unversioned)
        if row is None:
            return "the object is gone"
        return self._update(event, row, unversioned)

    def _update(self, event: Event, row: Row, unversioned: bytes) -> Proposal | str:
        with self._recording.read_all() as view:
            before = view.event(event.previous)
        if before is None:
            return "the version before it is no longer in the journal"
        current = without_version(row.body, row.offset)
        if current == without_version(before.body, before.offset):
            return self._write(event, row.offset, event.facts, unversioned)
        content = merged(decode(before.body), decode(event.body), decode(row.body))
        api_version = api_version_of(row.body)
        if api_version:
            content.pop("apiVersion", None)
        body = encode_unversioned(content, api_version)
        if body == current:
            return ""
        facts = self._facts(event, content)
        return "its kind is not served" if facts is None else self._write(event, row.offset, facts, body)

    def _facts(self, event: Event, content: dict[str, object]) -> bytes | None:
        for name, number in self._store.journal.types().items():
            if number == event.type_id:
                found = self._store.registry.current.stored_type(name)
                return None if found is None else facts_of(found.storage, content)
        return None

    def _write(self, event: Event, previous: int, facts: bytes, body: bytes) -> Proposal:
        return Proposal(
            type_id=event.type_id,
            verb=event.verb,
            namespace=event.namespace,
            name=event.name,
            previous=previous,
            removed=event.removed,
            time=self._clock.now(),
            user=event.user,
            manager=event.manager,
            facts=facts,
            body=body,
            reason=f"recorded as {event.offset}",
        )


_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "selfLink")
_ABSENT: Any = object()


def merged(before: Object, after: Object, current: Object) -> Object:
    """Apply a recorded change to an object that has changed since: what the recording changed, and nothing else.

        before   {replicas: 3, image: a}      as recorded
        after    {replicas: 5, image: a}      as recorded
        current  {replicas: 3, image: b}      in the copy, where another manager wrote image
        merged   {replicas: 5, image: b}

    Maps are merged field by field; a list that the recording changed is taken whole, but for entries of
    `managedFields`, which belong to managers. What the server maintains of an object (uid, times, versions)
    stays as it is in the copy.

    The current object with the changes from `before` to `after`; none of them is modified.
    """
    result: Object = dict(_merge(before, after, current))
    metadata = result["metadata"] = dict(result["metadata"])
    kept = current["metadata"]
    for name in _KEPT:
        if name in kept:
            metadata[name] = kept[name]
        else:
            metadata.pop(name, None)
    fields = [one["metadata"].get("managedFields") or [] for one in (before, after, current)]
    if managed := _managed_fields(*fields):
        metadata["managedFields"] = managed
    else:
        metadata.pop("managedFields", None)
    return result


def _merge(before: Any, after: Any, current: Any) -> Any:
    if after == before:
        return current
    if not (isinstance(after, dict) and isinstance(current, dict)):
        return after
    result = dict(current)
    old = before if isinstance(before, dict) else {}
    for name in {**old, **after}:
        was, becomes = old.get(name, _ABSENT), after.get(name, _ABSENT)
        if becomes is _ABSENT:
            result.pop(name, None)
        elif becomes != was:
            result[name] = _merge(was, becomes, current.get(name, _ABSENT))
    return result


def _managed_fields(before: list[Object], after: list[Object], current: list[Object]) -> list[Object]:
    """Merge managedFields: each manager's entry as the recording changed it, otherwise as it is."""
    old, new, here = ({_manager(one): one for one in entries} for entries in (before, after, current))
    result = dict(here)
    for manager in {**old, **new}:
        if new.get(manager) == old.get(manager):
            continue
        if manager in new:
            result[manager] = new[manager]
        else:
            result.pop(manager, None)
    return list(result.values())


def _manager(entry: Object) -> tuple[str, ...]:
    return tuple(str(entry.get(name, "")) for name in ("manager", "operation", "apiVersion", "subresource"))
