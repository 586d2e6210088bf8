"""The garbage collector: deletes dependents whose owners are deleted.

- Background: it deletes an object that has no existing owner left; if it has one, it removes the dangling references.
- Foreground (the owner has a deletionTimestamp and the finalizer foregroundDeletion): it deletes the dependents first,
  and removes the finalizer when no dependent with blockOwnerDeletion is left.
- Orphan (finalizer orphan): it removes the references of the dependents to the owner, then the finalizer.

The index of dependents names the objects to check, the journal has their state: the collector reads the object, then
its owners, and every write has that resourceVersion as its precondition. If the object changes meanwhile, the collector
checks it again instead of deleting an object that has a new owner. An object may have tens of thousands of owners and
dependents: the collector processes them in turns.

When a type is registered while the server runs, the collector scans its objects. It also checks objects with references
that it could not resolve because the kind was unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern

import msgspec
import trio

from rewound.actors.controllers.client import Client, run_concurrently
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.controllers.stored_objects import (
    PAGE_SIZE,
    Position,
    StoredTypes,
    deletion_waits_for,
    is_in_foreground_deletion,
    needs_garbage_collector,
    next_page,
)
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import NotFound
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.meta import FOREGROUND, ORPHAN
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.steps import Steps, chosen, parts_of
from rewound.actors.runtime.turns import Turn, in_turns, next_turn
from rewound.actors.selectors.facts import has_owners, unpack_uids
from rewound.actors.store.document import decode
from rewound.actors.store.misfits import report
from rewound.journal.log import Journal
from rewound.journal.records import Event, Row
from rewound.journal.view import View


class ClassifiedReferences(msgspec.Struct):
    """Owner uids by the state of the owner."""

    solid: set[str] = msgspec.field(default_factory=set)
    dangling: set[str] = msgspec.field(default_factory=set)
    waiting: set[str] = msgspec.field(default_factory=set)

    @property
    def all_solid(self) -> bool:
        return not self.dangling and not self.waiting


def classify_references(
    journal: Journal, types: StoredTypes, dependent: Definition, namespace: str, references: Sequence[Object]
) -> Steps[ClassifiedReferences | None]:
    """Classify an object's owner references: solid, dangling, or waiting for dependents to be deleted.

    Reads them in parts, each in its own view, and changes nothing. A reference is solid if an object of that kind and
    name exists in the dependent's namespace (or without namespace, for cluster-scoped kinds) and has the uid of the
    reference; an object with another uid is another object of the same name. An owner is waiting if it is in foreground
    deletion.

    A reference cannot be resolved if its kind is not served, or if a cluster-scoped object names a namespaced owner.
    The result is then None, and the garbage collector leaves the object alone: it must not delete in doubt.
    """
    owners = ClassifiedReferences()
    for part in parts_of(references):
        with journal.read() as view:
            for reference in part:
                definition = types.of_kind(reference["apiVersion"], reference["kind"])
                if definition is None or (definition.namespaced and not dependent.namespaced):
                    return None
                where = namespace if definition.namespaced else ""
                _sort(view, types.type_id(definition), where, reference, owners)
        yield
    return owners


def _sort(
    view: View, type_id: int | None, namespace: str, reference: Object, owners: ClassifiedReferences
) -> None:
    uid = reference["uid"]
    row = view.get(type_id, namespace, reference["name"]) if type_id is not None else None
    if row is None or unpack_uids(row.facts)[0] != uid:
        owners.dangling.add(uid)
    elif is_in_foreground_deletion(row.body):
        owners.waiting.add(uid)
    else:
        owners.solid.add(uid)


Key = tuple[int, str, str]  # type id, namespace, name


class DependentsStatistics(msgspec.Struct, frozen=True):
    owners: int
    dependents: int


class Dependents:
    """An index from an owner's uid to its dependents, for the objects that have owner references.

    The garbage collector owns it and updates it with every committed event. It has no entry for objects without owners,
    nor for the owners themselves: the collector looks an owner up in the journal by kind and name, and compares the
    uid.

    Dependents are in the order in which they were added, because the collector deletes from the front and waits for one
    at the back.
    """

    def __init__(self) -> None:
        self._by_owner: dict[str, dict[Key, None]] = {}
        self._owners: dict[Key, tuple[str, ...]] = {}

    def update(self, key: Key, owners: tuple[str, ...]) -> bool:
        """Record the current owners of an object; returns whether there is a new one."""
        before = self._owners.get(key, ())
        if owners == before:
            return False
        for uid in set(before).difference(owners):
            self._unlink(uid, key)
        if not owners:
            del self._owners[key]
            return False
        type_id, namespace, name = key
        key = (type_id, intern(namespace), name)
        owners = tuple(map(intern, owners))  # raises before anything changes, if they are no texts
        self._owners[key] = owners
        for uid in self._owners[key]:
            self._by_owner.setdefault(uid, {})[key] = None
        return not set(before).issuperset(owners)

    def drop(self, key: Key) -> None:
        for uid in self._owners.pop(key, ()):
            self._unlink(uid, key)

    def clear(self) -> None:
        self._by_owner.clear()
        self._owners.clear()

    def of(self, uid: str) -> list[Key]:
        return list(self._by_owner.get(uid, ()))

    def has_dependents(self, uid: str) -> bool:
        return uid in self._by_owner

    def statistics(self) -> DependentsStatistics:
        return DependentsStatistics(len(self._by_owner), len(self._owners))

    def _unlink(self, uid: str, key: Key) -> None:
        keys = self._by_owner.get(uid)
        if keys is None:
            return
        keys.pop(key, None)
        if not keys:
            del self._by_owner[uid]


# An object to check, the uid of an owner whose dependents must be checked, or the id of a new type.
WorkKey = Key | str | int


_BLOCKS = b'"blockOwnerDeletion":true'  # most dependents lack it and need not be parsed


class Item(msgspec.Struct, frozen=True):
    """An object as read from one view of the journal."""

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


def _needs_nothing(new: Event) -> bool:
    """Whether a new object, of which nothing is known yet, has no owner and needs no work, as most."""
    return not new.removed and not has_owners(new.facts) and not needs_garbage_collector(new.body)


class GarbageCollector:
    name = "garbage collector"
    observed_types = None

    def __init__(self, context: ControllerContext) -> None:
        self._journal = context.journal
        self._types = StoredTypes(context.registry, context.journal)
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "generic-garbage-collector"
        )
        self.queue: WorkQueue[WorkKey] = WorkQueue()
        self._dependents = Dependents()
        self._foreground: set[Key] = set()  # owners in foreground deletion
        self._unresolved: set[Key] = set()  # objects with an unresolvable reference
        self._waiting_owners: dict[
            Key, set[Key]
        ] = {}  # a blocking dependent -> the owners to check again when it changes

        context.registry.follow(self._kinds_changed)

    def statistics(self) -> DependentsStatistics:
        return self._dependents.statistics()

    def _kinds_changed(self, previous: Catalog, following: Catalog) -> None:
        for type_name in following.changed_since(previous):
            if previous.stored_type(type_name) is None:
                self.queue.add(self._journal.type_id(type_name))
        unjudged, self._unresolved = self._unresolved, set()
        for key in unjudged:
            self.queue.add(key)

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if not event.previous and _needs_nothing(event):
                continue
            key = (event.type_id, event.namespace, event.name)
            if event.removed:
                self._observe_removed(key, event.facts)
            else:
                try:
                    self._observe_stored(key, event)
                except OF_MISFITS as error:  # it is not collected
                    report(f"type {event.type_id}", event.namespace, event.name, error)
            if key in self._waiting_owners:
                for owner in self._waiting_owners.pop(key):
                    self.queue.add(owner)

    def _observe_removed(self, key: Key, facts: bytes) -> None:
        self._dependents.drop(key)
        self._foreground.discard(key)
        self._unresolved.discard(key)
        uid, _ = unpack_uids(facts)
        if self._dependents.has_dependents(uid):
            self.queue.add(uid)

    def _observe_stored(self, key: Key, event: Event) -> None:
        if self._index_owners(key, event.facts):
            self.queue.add(key)
        if needs_garbage_collector(event.body):
            self._observe_deletion(key, event.facts, event.body)
        else:
            self._foreground.discard(key)

    def _observe_deletion(self, key: Key, facts: bytes, body: bytes) -> None:
        self.queue.add(key)
        if is_in_foreground_deletion(body) and key not in self._foreground:
            self._foreground.add(key)
            self.queue.add(unpack_uids(facts)[0])

    def _index_owners(self, key: Key, facts: bytes) -> bool:
        """Update the index; returns whether the object has a new owner."""
        if has_owners(facts):
            return self._dependents.update(key, unpack_uids(facts)[1])
        self._dependents.drop(key)
        return False

    async def catch_up(self) -> None:
        """Fill the index and add the keys of all objects that need work."""
        self._dependents.clear()
        self._foreground.clear()
        self._waiting_owners.clear()
        self._unresolved.clear()
        await in_turns(self._scan_all())

    def _scan_all(self) -> Steps[None]:
        with self._journal.read() as view:
            written = view.written_types()  # the feed reports the first object of any other type
        for type_id in written:
            yield from self._scan_type(type_id)

    def _scan_type(self, type_id: int) -> Steps[None]:
        definition = self._types.definition(type_id)
        after: Position | None = None
        while definition is not None:
            after, owned = self._scan(type_id, after)
            yield
            for key, body in owned:
                try:
                    item = Item(key, definition, decode(body))
                    owners = yield from self._classify_references(item)
                except OF_MISFITS as error:  # it is not collected
                    report(definition.plural, *key[1:], error)
                    continue
                if owners is not None and not owners.all_solid:
                    self.queue.add(key)
            if after is None:
                return

    def _scan(self, type_id: int, after: Position | None) -> tuple[Position | None, list[tuple[Key, bytes]]]:
        """Scan one page; returns the position of its last object, or None at the end, and the objects with owners."""
        last, owned = None, list[tuple[Key, bytes]]()
        with self._journal.read() as view:
            for namespace, name, row in next_page(view, type_id, None, after):
                last = (namespace, name)
                try:
                    self._take_row((type_id, namespace, name), row, owned)
                except OF_MISFITS as error:
                    report(f"type {type_id}", namespace, name, error)
        return last, owned

    def _take_row(self, key: Key, row: Row, owned: list[tuple[Key, bytes]]) -> None:
        if has_owners(row.facts):
            self._index_owners(key, row.facts)
            owned.append((key, row.body))
        if needs_garbage_collector(row.body):
            self._observe_deletion(key, row.facts, row.body)

    async def reconcile(self, key: WorkKey) -> None:
        if isinstance(key, str):
            await self._enqueue_dependents(key)
        elif isinstance(key, int):
            await in_turns(self._scan_type(key))
        else:
            await self._reconcile_object(key)

    async def _enqueue_dependents(self, uid: str) -> None:
        for done, key in enumerate(self._dependents.of(uid), 1):
            self.queue.add(key)
            if done % PAGE_SIZE == 0:
                await trio.lowlevel.checkpoint()

    async def _reconcile_object(self, key: Key) -> None:
        with self._journal.read() as view:
            item = self._read(view, key)
        if item is None:
            return
        owners = await in_turns(self._classify_references(item))
        if deletion_waits_for(item.object, ORPHAN):
            await self._orphan_dependents(item)
        elif deletion_waits_for(item.object, FOREGROUND):
            await self._continue_foreground_deletion(item)
        elif "deletionTimestamp" not in item.object["metadata"] and owners is not None:
            await self._delete_or_release(item, owners)

    def _read(self, view: View, key: Key) -> Item | None:
        row = view.get(*key)
        definition = self._types.definition(key[0])
        if row is None or definition is None:
            return None
        return Item(key, definition, decode(row.body))

    def _classify_references(self, item: Item) -> Steps[ClassifiedReferences | None]:
        owners = yield from classify_references(
            self._journal, self._types, item.definition, item.key[1], item.references
        )
        if owners is None:
            self._unresolved.add(item.key)
        return owners

    async def _delete_or_release(self, item: Item, owners: ClassifiedReferences) -> None:
        if owners.all_solid:
            return
        if owners.solid:
            await self._remove_owner_references(item, owners.dangling | owners.waiting)
        elif owners.waiting and self._dependents.has_dependents(item.uid):
            await self._delete(await self._unblock_cycle(item), "Foreground")
        else:
            await self._delete(item, _policy_of(item))

    async def _unblock_cycle(self, item: Item) -> Item:
        """Unset blockOwnerDeletion if objects that own each other block each other: they would wait forever."""
        blocks = any(reference.get("blockOwnerDeletion") for reference in item.references)
        if not blocks or not await in_turns(
            chosen(self._dependents.of(item.uid), self._foreground.__contains__)
        ):
            return item
        for reference in item.references:
            if reference.get("blockOwnerDeletion"):
                reference["blockOwnerDeletion"] = False
        body = await self._client.replace(item.definition, item.object)
        return Item(item.key, item.definition, decode(body))

    async def _delete(self, item: Item, policy: str) -> None:
        _, namespace, name = item.key
        options = DeleteOptions(
            propagation_policy=policy,
            uid=item.uid,
            resource_version=item.object["metadata"]["resourceVersion"],
        )
        try:
            await self._client.delete(item.definition, namespace, name, options)
        except NotFound:
            return

    async def _remove_owner_references(self, item: Item, uids: set[str]) -> None:
        """Remove the references to some owners from an object."""
        kept = [reference for reference in item.references if reference["uid"] not in uids]
        if len(kept) == len(item.references):
            return
        metadata = item.object["metadata"]
        metadata.pop("ownerReferences")
        if kept:
            metadata["ownerReferences"] = kept
        await self._replace(item)

    async def _orphan_dependents(self, owner: Item) -> None:
        async def release(key: Key) -> None:
            with self._journal.read() as view:
                dependent = self._read(view, key)
            if dependent is not None:
                await self._remove_owner_references(dependent, {owner.uid})

        refusals = await run_concurrently(release, self._dependents.of(owner.uid))
        if refusals:
            raise refusals[0]
        if self._dependents.has_dependents(owner.uid):
            # Created in the meantime: without its owner it would be deleted, against the Orphan policy.
            raise RetryLater
        await self._remove_finalizer(owner, ORPHAN)

    async def _continue_foreground_deletion(self, owner: Item) -> None:
        blocker = await self._find_blocker(owner.uid)
        if blocker is None:
            await self._remove_finalizer(owner, FOREGROUND)
        else:
            # There was no checkpoint since the blocker was read, so `observe` will still get its next change.
            self._waiting_owners.setdefault(blocker, set()).add(owner.key)

    async def _find_blocker(self, uid: str) -> Key | None:
        """A dependent that blocks its owner's deletion. Searches from the back, because deletes start at the front."""
        turn = Turn()
        for key in reversed(self._dependents.of(uid)):
            if turn.over():
                await next_turn()
                turn = Turn()
            with self._journal.read() as view:
                if self._blocks(view, key, uid):
                    return key
        return None

    def _blocks(self, view: View, key: Key, uid: str) -> bool:
        row = view.get(*key)
        if row is None or self._types.definition(key[0]) is None or _BLOCKS not in row.body:
            return False
        references = decode(row.body)["metadata"].get("ownerReferences", ())
        return any(one["uid"] == uid and one.get("blockOwnerDeletion", False) for one in references)

    async def _remove_finalizer(self, owner: Item, finalizer: str) -> None:
        metadata = owner.object["metadata"]
        kept = [name for name in metadata.pop("finalizers") if name != finalizer]
        if kept:
            metadata["finalizers"] = kept
        await self._replace(owner)

    async def _replace(self, item: Item) -> None:
        try:
            await self._client.replace(item.definition, item.object)
        except NotFound:
            return


def _policy_of(item: Item) -> str:
    """The propagation policy that the object's finalizers imply, because no client gave one."""
    finalizers = item.object["metadata"].get("finalizers", ())
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
