"""The garbage collector: objects follow their owners.

- Background: an object whose owners are all gone is deleted; one that has a living owner left loses the
  references to those that are gone.
- Foreground (the owner is marked and has the finalizer foregroundDeletion): its dependents are deleted first,
  and it goes when none is left that says blockOwnerDeletion.
- Orphan (finalizer orphan): its dependents lose their reference to it, then it goes.

The index of dependents says whom to look at, the journal says what is true: every decision is made on one
reading of the object and its owners, and every write has that version as its precondition, so a change
between the two makes the collector look again instead of deleting what was just rescued.

Kinds come and go: the objects of a type that is registered while the server runs are scanned then, and objects whose
owners could not be judged because their kind was unknown are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import trio

from actors.controllers.dependents import Dependents, DependentsStatistics, Key
from actors.controllers.loop import NotYet
from actors.controllers.marks import awaits_collector, awaits_dependents, held_by
from actors.controllers.owners import Owners, judge
from actors.controllers.slices import SLICE, Place, next_slice
from actors.controllers.stored_types import StoredTypes
from actors.controllers.together import together
from actors.controllers.work import WorkQueue
from actors.controllers.writer import Writer
from actors.errors import NotFound
from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition
from actors.kinds.declaration.meta import FOREGROUND, ORPHAN
from actors.kinds.registry import Registry
from actors.messages import DeleteOptions, Object
from actors.names import Names
from actors.resource.directory import Directory
from actors.selectors.facts import has_owners, unpack_uids
from actors.stamps import Stamps
from actors.store.document import decode
from journal.log import Journal
from journal.records import Event, Row
from journal.view import View

# An object to look at, the uid of an owner whose dependents are to be looked at, or the id of a type that came.
Work = Key | str | int


@dataclass(frozen=True, slots=True)
class Subject:
    """An object as one reading of the journal had it."""

    key: Key
    definition: Definition
    object: Object

    @property
    def uid(self) -> str:
        uid: str = self.object["metadata"]["uid"]
        return uid

    @property
    def references(self) -> list[Object]:
        found: list[Object] = self.object["metadata"].get("ownerReferences", [])
        return found


class GarbageCollector:
    name = "garbage collector"

    def __init__(
        self, registry: Registry, journal: Journal, directory: Directory, stamps: Stamps, names: Names
    ) -> None:
        self._journal = journal
        self._types = StoredTypes(registry, journal)
        self._writer = Writer.of_controller(directory, stamps, names, "generic-garbage-collector")
        self.queue: WorkQueue[Work] = WorkQueue()
        self._dependents = Dependents()
        self._foreground: set[Key] = set()  # owners that wait for their dependents
        self._unjudged: set[Key] = set()  # objects with a reference to a kind that is not known
        self._awaited: dict[
            Key, set[Key]
        ] = {}  # a blocking dependent -> the owners that look again when it changes

        registry.follow(self._kinds_changed)

    def statistics(self) -> DependentsStatistics:
        return self._dependents.statistics()

    def _kinds_changed(self, previous: Catalog, following: Catalog) -> None:
        for type_name in following.changed_since(previous):
            if previous.stored_type(type_name) is None:
                self.queue.add(self._journal.type_id(type_name))
        unjudged, self._unjudged = self._unjudged, set()
        for key in unjudged:
            self.queue.add(key)

    # Following the feed.

    def note(self, events: Sequence[Event]) -> None:
        for event in events:
            key = (event.type_id, event.namespace, event.name)
            if event.removed:
                self._note_removed(key, event.facts)
            else:
                self._note_stored(key, event)
            if key in self._awaited:
                for owner in self._awaited.pop(key):
                    self.queue.add(owner)

    def _note_removed(self, key: Key, facts: bytes) -> None:
        self._dependents.drop(key)
        self._foreground.discard(key)
        self._unjudged.discard(key)
        uid, _ = unpack_uids(facts)
        if self._dependents.any_of(uid):
            self.queue.add(uid)

    def _note_stored(self, key: Key, event: Event) -> None:
        if self._take_down(key, event.facts):
            self.queue.add(key)
        if awaits_collector(event.body):
            self._note_deleting(key, event.facts, event.body)
        else:
            self._foreground.discard(key)

    def _note_deleting(self, key: Key, facts: bytes, body: bytes) -> None:
        self.queue.add(key)
        if awaits_dependents(body) and key not in self._foreground:
            self._foreground.add(key)
            self.queue.add(unpack_uids(facts)[0])

    def _take_down(self, key: Key, facts: bytes) -> bool:
        """Keep the index in step; answers whether the object has an owner it did not have."""
        if has_owners(facts):
            return self._dependents.put(key, unpack_uids(facts)[1])
        self._dependents.drop(key)
        return False

    # Catching up.

    async def catch_up(self) -> None:
        """Fill the index and find what was left undone; objects that are in order are only looked at."""
        self._dependents.clear()
        self._foreground.clear()
        self._awaited.clear()
        self._unjudged.clear()
        for type_id, definition in list(self._types):
            await self._scan_type(type_id, definition)

    async def _scan_type(self, type_id: int, definition: Definition) -> None:
        after: Place | None = None
        while (after := self._scan(type_id, definition, after)) is not None:
            await trio.lowlevel.checkpoint()

    def _scan(self, type_id: int, definition: Definition, after: Place | None) -> Place | None:
        """One slice; answers where the next begins, or None at the end."""
        last = None
        with self._journal.read() as view:
            for namespace, name, row in next_slice(view, type_id, None, after):
                last = (namespace, name)
                self._scan_row(view, (type_id, namespace, name), definition, row)
        return last

    def _scan_row(self, view: View, key: Key, definition: Definition, row: Row) -> None:
        if has_owners(row.facts):
            self._take_down(key, row.facts)
            owners = self._judge(view, Subject(key, definition, decode(row.body)))
            if owners is not None and not owners.in_order:
                self.queue.add(key)
        if awaits_collector(row.body):
            self._note_deleting(key, row.facts, row.body)

    # Handling.

    async def handle(self, key: Work) -> None:
        if isinstance(key, str):
            await self._look_at_dependents(key)
        elif isinstance(key, int):
            definition = self._types.definition(key)
            if definition is not None:
                await self._scan_type(key, definition)
        else:
            await self._look_at(key)

    async def _look_at_dependents(self, uid: str) -> None:
        for done, key in enumerate(self._dependents.of(uid), 1):
            self.queue.add(key)
            if done % SLICE == 0:
                await trio.lowlevel.checkpoint()

    async def _look_at(self, key: Key) -> None:
        with self._journal.read() as view:
            subject = self._read(view, key)
            if subject is None:
                return
            owners = self._judge(view, subject)
        if held_by(subject.object, ORPHAN):
            await self._let_orphans_go(subject)
        elif held_by(subject.object, FOREGROUND):
            await self._go_after_dependents(subject)
        elif "deletionTimestamp" not in subject.object["metadata"] and owners is not None:
            await self._follow_owners(subject, owners)

    def _read(self, view: View, key: Key) -> Subject | None:
        row = view.get(*key)
        definition = self._types.definition(key[0])
        if row is None or definition is None:
            return None
        return Subject(key, definition, decode(row.body))

    def _judge(self, view: View, subject: Subject) -> Owners | None:
        owners = judge(view, self._types, subject.definition, subject.key[1], subject.references)
        if owners is None:
            self._unjudged.add(subject.key)
        return owners

    # Dependents.

    async def _follow_owners(self, subject: Subject, owners: Owners) -> None:
        if owners.in_order:
            return
        if owners.solid:
            await self._strip(subject, owners.dangling | owners.waiting)
        elif owners.waiting and self._dependents.any_of(subject.uid):
            await self._delete(await self._without_circle(subject), "Foreground")
        else:
            await self._delete(subject, _policy_of(subject))

    async def _without_circle(self, subject: Subject) -> Subject:
        """Objects that own each other and block each other would wait for ever: this one stops blocking."""
        blocking = any(reference.get("blockOwnerDeletion") for reference in subject.references)
        circle = any(key in self._foreground for key in self._dependents.of(subject.uid))
        if not (blocking and circle):
            return subject
        for reference in subject.references:
            if reference.get("blockOwnerDeletion"):
                reference["blockOwnerDeletion"] = False
        body = await self._writer.replace(subject.definition, subject.object)
        return Subject(subject.key, subject.definition, decode(body))

    async def _delete(self, subject: Subject, policy: str) -> None:
        _, namespace, name = subject.key
        options = DeleteOptions(
            propagation_policy=policy,
            uid=subject.uid,
            resource_version=subject.object["metadata"]["resourceVersion"],
        )
        try:
            await self._writer.delete(subject.definition, namespace, name, options)
        except NotFound:
            return

    async def _strip(self, subject: Subject, uids: set[str]) -> None:
        """Take the references to some owners off an object."""
        kept = [reference for reference in subject.references if reference["uid"] not in uids]
        if len(kept) == len(subject.references):
            return
        metadata = subject.object["metadata"]
        metadata.pop("ownerReferences")
        if kept:
            metadata["ownerReferences"] = kept
        await self._replace(subject)

    # Owners.

    async def _let_orphans_go(self, owner: Subject) -> None:
        async def release(key: Key) -> None:
            with self._journal.read() as view:
                dependent = self._read(view, key)
            if dependent is not None:
                await self._strip(dependent, {owner.uid})

        refusals = await together(release, self._dependents.of(owner.uid))
        if refusals:
            raise refusals[0]
        if self._dependents.any_of(owner.uid):
            # Made meanwhile; with the owner gone it would be deleted, which is not what was asked for.
            raise NotYet
        await self._drop_finalizer(owner, ORPHAN)

    async def _go_after_dependents(self, owner: Subject) -> None:
        blocker = await self._find_blocker(owner.uid)
        if blocker is None:
            await self._drop_finalizer(owner, FOREGROUND)
        else:
            # No turn of the event loop since the blocker was read: what becomes of it is still to be noted.
            self._awaited.setdefault(blocker, set()).add(owner.key)

    async def _find_blocker(self, uid: str) -> Key | None:
        """A dependent that holds its owner. From the back: they are deleted from the front."""
        dependents = reversed(self._dependents.of(uid))
        while keys := list(islice(dependents, SLICE)):
            with self._journal.read() as view:
                for key in keys:
                    if self._blocks(view, key, uid):
                        return key
            await trio.lowlevel.checkpoint()
        return None

    def _blocks(self, view: View, key: Key, uid: str) -> bool:
        dependent = self._read(view, key)
        return dependent is not None and any(
            reference["uid"] == uid and reference.get("blockOwnerDeletion", False)
            for reference in dependent.references
        )

    async def _drop_finalizer(self, owner: Subject, finalizer: str) -> None:
        metadata = owner.object["metadata"]
        kept = [name for name in metadata.pop("finalizers") if name != finalizer]
        if kept:
            metadata["finalizers"] = kept
        await self._replace(owner)

    async def _replace(self, subject: Subject) -> None:
        try:
            await self._writer.replace(subject.definition, subject.object)
        except NotFound:
            return


def _policy_of(subject: Subject) -> str:
    """Nobody asked for a policy, so the finalizers that the object has already decide."""
    finalizers = subject.object["metadata"].get("finalizers", ())
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
