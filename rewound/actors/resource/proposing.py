"""Turns a decision into proposed events and the body of the response. Pure, so that a worker thread can do it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from rewound.actors.kinds.declaration.definition import Definition, Versions
from rewound.actors.messages import Command, Delete, Object
from rewound.actors.patch.managed_fields.managers import same_but_for_times
from rewound.actors.resource.current import Current
from rewound.actors.resource.object_size import ObjectSizes
from rewound.actors.store.document import encode, encode_unversioned, facts_of
from rewound.actors.store.proposal import Proposal
from rewound.actors.versions.features import REMOVAL_VERSION

# The body of a response: complete, that of a proposed event, or without a version and with the event that has it.
Body = bytes | Proposal | tuple[bytes, Proposal]


class Store(NamedTuple):
    """Store the object. A tuple, because almost every write creates one and a dataclass costs more."""

    object: Object


class Remove(msgspec.Struct, frozen=True):
    """Remove the object. `returned` is the object in the response, if it is not the one last stored.

    `last` is stored first: watchers see the object with a deletionTimestamp before its removal.
    """

    returned: Object | None = None
    last: Object | None = None


class Keep(msgspec.Struct, frozen=True):
    """Change nothing."""


Decision = Store | Remove | Keep


class Decided(NamedTuple):
    """What a command becomes. A tuple, because every write creates one and a dataclass costs more."""

    decision: Decision
    current: Current | None
    verb: str  # what the journal records
    created: bool = False
    warnings: tuple[str, ...] = ()
    stored: Object | None = None  # of a custom kind: what `Store` stores, in the storage version


class Proposer:
    """Proposes the events of one resource type."""

    __slots__ = ("_names_removal", "_sizes", "_storage", "_type_id", "_versions")

    def __init__(self, type_id: int, storage: Definition, sizes: ObjectSizes) -> None:
        self._type_id = type_id
        self._storage = storage
        self._sizes = sizes
        self._versions = storage.storage.versions
        self._names_removal = REMOVAL_VERSION in storage.features

    def propose(self, decided: Decided, command: Command, proposals: list[Proposal]) -> Body:
        """Append the proposed events; returns the body of the response. Raises RequestTooLarge."""
        decision, current, verb = decided.decision, decided.current, decided.verb
        if type(decision) is Store and self._versions is None and not command.dry_run:  # most writes
            written = 0 if current is None else current.written
            return self._append(decision.object, "", written, command, verb, proposals, current)
        version = "" if self._versions is None else _version(command, current)
        match decision:
            case Store():
                stored = decided.stored
                return self._store(decision.object, stored, version, current, command, verb, proposals)
            case Keep():
                assert current is not None
                return _kept(current)
            case Remove(last=dict(last)):
                assert current is not None
                if command.dry_run:
                    return _body(last, current, version)
                marked = self._append(last, version, current.written, command, verb, proposals)
                removal = self._append(last, version, marked, command, verb, proposals, removed=True)
                return removal if self._names_removal else marked
            case Remove(returned=returned):
                assert current is not None
                if not command.dry_run:
                    written, last = current.written, current.stored or current.object
                    stored_in = current.api_version
                    removal = self._append(last, stored_in, written, command, verb, proposals, removed=True)
                    if self._names_removal:
                        return encode_unversioned(returned or current.object, version), removal
                return _body(returned or current.object, current, version)

    def _store(
        self,
        new: Object,
        stored: Object | None,  # in the storage version, unless a delete stores it as it is
        version: str,
        current: Current | None,
        command: Command,
        verb: str,
        proposals: list[Proposal],
    ) -> Body:
        if self._versions is not None and stored is not None:
            if _is_stored(self._versions, stored, current):
                assert current is not None
                return _kept(current)
            new, version = stored, self._versions.storage
        if command.dry_run:
            return _body(new, current, version)
        written = 0 if current is None else current.written
        return self._append(new, version, written, command, verb, proposals, current)

    def _append(
        self,
        stored: Object,
        api_version: str,
        previous: int | Proposal,
        command: Command,
        verb: str,
        proposals: list[Proposal],
        current: Current | None = None,
        *,
        removed: bool = False,
    ) -> Proposal:
        metadata, storage, sizes = stored["metadata"], self._storage, self._sizes
        body = encode_unversioned(stored, api_version)
        if len(body) > sizes.smallest and not removed:
            body = sizes.fitting(storage, stored, api_version, previous, current, command)
        context = command.context
        proposal = Proposal(
            type_id=self._type_id,
            verb=verb,
            namespace=metadata["namespace"] if storage.namespaced else "",
            name=metadata["name"],
            previous=previous,
            removed=removed,
            time=context.time,
            user=context.user,
            manager=context.manager,
            facts=facts_of(storage, stored),
            body=body,
            reason=context.reason,
        )
        proposals.append(proposal)
        return proposal


def _version(command: Command, current: Current | None) -> str:
    """The version that the objects of a decision are in: that of the command, except for deletes."""
    if isinstance(command, Delete) and current is not None:
        return current.api_version
    return command.version


def is_unchanged(new: Object, old: Object) -> bool:
    """Whether the objects are equal, except for the times in managedFields."""
    if new == old:
        return True
    if {**new, "metadata": None} != {**old, "metadata": None}:
        return False
    metadata, other = new["metadata"], old["metadata"]
    if {**metadata, "managedFields": None} != {**other, "managedFields": None}:
        return False
    return same_but_for_times(metadata.get("managedFields", []), other.get("managedFields", []))


def _is_stored(versions: Versions, new: Object, current: Current | None) -> bool:
    """Whether an object is stored already as it is to be stored."""
    if current is None or current.api_version != versions.storage or current.stored is None:
        return False
    return is_unchanged(new, current.stored)


def _kept(current: Current) -> Body:
    """The body of an object that stays as it is."""
    if current.proposal is not None:
        return current.proposal
    return encode(current.stored or current.object, current.offset, current.api_version)


def _body(stored: Object, current: Current | None, version: str) -> Body:
    """The body of an object with the version of the current one, or without a version if there is none."""
    if current is None:
        return encode(stored, 0, version)
    if current.proposal is None:
        return encode(stored, current.offset, version)
    return encode_unversioned(stored, version), current.proposal
