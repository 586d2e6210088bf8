"""The namespace controller: a namespace that is being deleted is emptied, then let go.

Every object of every namespaced type is deleted; what finalizers hold is told in the namespace's conditions
and looked for again when something there changes, or after a pause. An empty namespace loses the entry of
spec.finalizers that is this controller's, and with the last finalizer it is gone.

Nothing can slip through: a create that was admitted before the mark was seen is in the log before the
conditions are, so the count made after writing them sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import trio

from actors.controllers.conditions import Remaining, with_conditions
from actors.controllers.loop import NotYet
from actors.controllers.marks import is_marked
from actors.controllers.slices import Place, next_slice
from actors.controllers.stored_types import StoredTypes
from actors.controllers.together import together
from actors.controllers.work import WorkQueue
from actors.controllers.writer import Writer
from actors.errors import NotFound
from actors.kinds.declaration.definition import Definition
from actors.kinds.declaration.meta import NAMESPACE_FINALIZER
from actors.kinds.registry import Registry
from actors.kinds.values.times import seconds_text
from actors.messages import DeleteOptions, Object
from actors.names import Names
from actors.resource.directory import Directory
from actors.stamps import Stamps
from actors.store.document import decode
from journal.log import Journal
from journal.records import Event

NAMESPACES = "namespaces"
# Objects of one namespace tend to go together: one look is enough for all that go within this time.
SETTLING = 0.2
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0


class NamespaceController:
    name = "namespace controller"

    def __init__(
        self, registry: Registry, journal: Journal, directory: Directory, stamps: Stamps, names: Names
    ) -> None:
        self._journal = journal
        self._types = StoredTypes(registry, journal)
        self._definition = registry.current.storage(NAMESPACES)
        self._type_id = journal.type_id(NAMESPACES)
        self._writer = Writer.of_controller(directory, stamps, names, "namespace-controller")
        self.queue: WorkQueue[str] = WorkQueue(FIRST_PAUSE, LONGEST_PAUSE)
        self._going: set[str] = set()

    def statistics(self) -> dict[str, int]:
        return {"terminating": len(self._going)}

    def note(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                self._note_namespace(event.name, event)
            elif event.namespace in self._going and (event.removed or not event.previous):
                self.queue.add_after(event.namespace, SETTLING)

    def _note_namespace(self, name: str, event: Event) -> None:
        if event.removed:
            self._going.discard(name)
        elif name not in self._going and is_marked(event.body):
            self._going.add(name)
            self.queue.add(name)

    async def catch_up(self) -> None:
        self._going.clear()
        after: Place | None = None
        while (after := self._scan(after)) is not None:
            await trio.lowlevel.checkpoint()

    def _scan(self, after: Place | None) -> Place | None:
        last = None
        with self._journal.read() as view:
            for _, name, row in next_slice(view, self._type_id, "", after):
                last = ("", name)
                if is_marked(row.body):
                    self._going.add(name)
                    self.queue.add(name)
        return last

    async def handle(self, key: str) -> None:
        if not _to_be_emptied(self._read(key)):
            return
        remaining = await self._empty(key)
        namespace = await self._tell(key, remaining)
        if namespace is None:
            return
        if not remaining.nothing or self._has_content(key):
            raise NotYet
        await self._let_go(namespace)

    def _read(self, name: str) -> Object | None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", name)
        return decode(row.body) if row is not None else None

    # Emptying.

    async def _empty(self, namespace: str) -> Remaining:
        remaining = Remaining()
        for type_id, definition in self._filled(namespace):
            await self._delete_all(type_id, definition, namespace, remaining)
            await self._count(type_id, definition, namespace, remaining)
        return remaining

    def _filled(self, namespace: str) -> list[tuple[int, Definition]]:
        """The types that have objects in the namespace."""
        with self._journal.read() as view:
            return [
                (id_, each) for id_, each in self._types if each.namespaced and view.count(id_, namespace)
            ]

    def _has_content(self, namespace: str) -> bool:
        return bool(self._filled(namespace))

    async def _delete_all(
        self, type_id: int, definition: Definition, namespace: str, remaining: Remaining
    ) -> None:
        """Delete what is not marked yet; what is marked needs no second word."""
        after: Place | None = None
        while True:
            with self._journal.read() as view:
                rows = list(next_slice(view, type_id, namespace, after))
            if not rows:
                return
            after = rows[-1][:2]
            names = [name for _, name, row in rows if not is_marked(row.body)]
            refusals = await together(partial(self._delete, definition, namespace), names)
            if refusals:
                remaining.failures.append(str(refusals[0]))
                return
            await trio.lowlevel.checkpoint()

    async def _delete(self, definition: Definition, namespace: str, name: str) -> None:
        options = DeleteOptions(propagation_policy="Background")
        try:
            await self._writer.delete(definition, namespace, name, options, verb="deletecollection")
        except NotFound:
            return

    async def _count(
        self, type_id: int, definition: Definition, namespace: str, remaining: Remaining
    ) -> None:
        after: Place | None = None
        while True:
            with self._journal.read() as view:
                rows = list(next_slice(view, type_id, namespace, after))
            if not rows:
                return
            after = rows[-1][:2]
            for _, _, row in rows:
                finalizers = decode(row.body)["metadata"].get("finalizers", ())
                remaining.count(definition.plural, definition.group, finalizers)
            await trio.lowlevel.checkpoint()

    # Writing to the namespace itself.

    async def _tell(self, name: str, remaining: Remaining) -> Object | None:
        """Write the conditions where they changed; answers the namespace as it then is, None when gone."""
        namespace = self._read(name)
        if namespace is None:
            return None
        status = namespace.setdefault("status", {})
        old = status.get("conditions", [])
        status["conditions"] = with_conditions(old, remaining, seconds_text(self._writer.now()))
        if status["conditions"] == old:
            return namespace
        try:
            return decode(await self._writer.replace(self._definition, namespace, "status"))
        except NotFound:
            return None

    async def _let_go(self, namespace: Object) -> None:
        spec = namespace["spec"]
        kept = [finalizer for finalizer in spec.pop("finalizers", ()) if finalizer != NAMESPACE_FINALIZER]
        if kept:
            spec["finalizers"] = kept
        try:
            await self._writer.replace(self._definition, namespace, "finalize")
        except NotFound:
            return


def _to_be_emptied(namespace: Object | None) -> bool:
    if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
        return False
    return bool(namespace.get("spec", {}).get("finalizers"))
