"""The controller of CustomResourceDefinitions: accepts their names, establishes them, and deletes their objects.

It has one worker, because the names of a definition depend on those of all others in its group. Kubernetes has a
controller for each condition; this one writes all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import trio

from rewound.actors.controllers.client import Client, run_concurrently
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.controllers.publication import Publication, outline
from rewound.actors.controllers.stored_objects import Position, next_page
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import Conflict, NotFound, RequestError
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.identity import SERVER_USER
from rewound.actors.kinds.apiextensions import APPROVED as APPROVED
from rewound.actors.kinds.apiextensions import (
    ESTABLISHED,
    NAMES_ACCEPTED,
    SCHEMA_MODULES,
    TERMINATING,
    approval_of,
    cleanup_finalizer,
    definition_type,
    find_condition,
    is_protected,
    is_true,
    with_condition,
)
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.background_import import imported
from rewound.actors.store.document import is_being_deleted
from rewound.journal.records import Event

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# Objects are often removed together: one check covers all that are removed within this time.
RECHECK_DELAY = 0.05


class CustomResourceController:
    name = "custom resource definition controller"
    observed_types = None  # the objects of definitions that are being deleted have any type

    def __init__(self, context: ControllerContext, publication: Publication) -> None:
        self._names = context.names
        self._registry, self._journal = context.registry, context.journal
        self._publication = publication
        type_name = definition_type(context.names)
        self._definition = context.registry.current.storage(type_name)
        self._type_id = context.journal.type_id(type_name)
        self._client = Client(
            context.directory, context.write_contexts, SERVER_USER, context.names.server_manager
        )
        self._finalizer = cleanup_finalizer(context.names)
        self._deleting: dict[
            int, str
        ] = {}  # type ids of definitions that wait for the removal of their objects
        self.queue: WorkQueue[str] = WorkQueue(FIRST_PAUSE, LONGEST_PAUSE)

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                self.queue.add(event.name)
                if event.removed:
                    self._add_rivals(event.name)
            elif self._deleting and event.removed and event.type_id in self._deleting:
                self.queue.add_after(self._deleting[event.type_id], RECHECK_DELAY)

    def _add_rivals(self, name: str) -> None:
        """Add the definitions of the same group that lack names: some may be free now."""
        for known in self._publication.of_group(name.partition(".")[2]):
            if known.lacks_names and known.name != name:
                self.queue.add(known.name)

    async def catch_up(self) -> None:
        after: Position | None = None
        while True:
            with self._journal.read() as view:
                rows = [name for _, name, _ in next_page(view, self._type_id, "", after)]
            if not rows:
                return
            after = "", rows[-1]
            for (
                module
            ) in SCHEMA_MODULES:  # for the first request of a custom kind, which would block the event loop
                await imported(module)
            for name in rows:
                known = self._publication.find(name)
                if known is None or known.lacks_names or known.terminating or not known.established:
                    self.queue.add(name)
            await trio.lowlevel.checkpoint()

    async def reconcile(self, key: str) -> None:
        body = self._read(key)
        if body is None:
            return
        try:
            if "deletionTimestamp" in outline(body)["metadata"]:
                await self._finalize(body)
            else:
                await self._accept(body)
        except (Conflict, NotFound):
            return  # it has changed in the meantime, and is in the queue again

    def _read(self, name: str) -> bytes | None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", name)
        return row.body if row is not None else None

    def _now(self) -> str:
        return seconds_text(self._client.now())

    async def _accept(self, body: bytes) -> None:
        stored = outline(body)
        name, status, now = stored["metadata"]["name"], stored["status"], self._now()
        accepted, conditions = status["acceptedNames"], status["conditions"]
        if stored["spec"]["names"] != accepted:
            others = [one for one in self._publication.of_group(stored["spec"]["group"]) if one.name != name]
            resources = {used for one in others for used in one.resource_names}
            kinds = {used for one in others for used in one.kinds}
            accepted, reason, message = accept_names(stored, resources, kinds)
            conditions = naming_conditions(stored, reason, message, now)
        changed = {**stored, "status": {**status, "conditions": conditions, "acceptedNames": accepted}}
        self._add_approval(changed, now)
        if changed["status"] == status:
            return
        if is_true(changed, ESTABLISHED) and not self._publication.overlaps_built_in(name):
            await self._registry.reserve(name)
        await self._write_status(changed)
        self._add_rivals(name)

    async def _write_status(self, changed: Object) -> Object:
        """Store the status and finalizers of an outline, and return the new one. Raises Conflict if it is not current.

        The schemas are not needed for that: a write of the status keeps the stored spec.
        """
        return outline(await self._client.replace(self._definition, changed, "status"))

    def _add_approval(self, changed: Object, now: str) -> None:
        if not is_protected(self._names, changed["spec"]["group"]):
            return
        found, status = approval_of(self._names, changed), changed["status"]
        status["conditions"] = with_condition(
            status["conditions"], APPROVED, found.status, found.reason, found.message, now
        )

    async def _finalize(self, body: bytes) -> None:
        stored = outline(body)
        if self._finalizer not in stored["metadata"].get("finalizers", ()):
            return
        name = stored["metadata"]["name"]
        # After this write, every create that was decided before the definition was marked as deleted is in the journal.
        stored = await self._write_terminating(
            stored, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"
        )
        if self._publication.overlaps_built_in(name):
            result = "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"
        elif is_true(stored, ESTABLISHED):
            await self._delete_objects(stored)
            result = "InstanceDeletionCompleted", "removed all instances"
        else:
            result = "NeverEstablished", "resource was never established"
        finalizers = [one for one in stored["metadata"]["finalizers"] if one != self._finalizer]
        metadata = {key: value for key, value in stored["metadata"].items() if key != "finalizers"}
        if finalizers:
            metadata["finalizers"] = finalizers
        await self._write_terminating({**stored, "metadata": metadata}, "False", *result)
        self._deleting.pop(self._journal.type_id(name), None)

    async def _write_terminating(self, stored: Object, status: str, reason: str, message: str) -> Object:
        conditions = with_condition(
            stored["status"]["conditions"], TERMINATING, status, reason, message, self._now()
        )
        return await self._write_status({**stored, "status": {**stored["status"], "conditions": conditions}})

    async def _delete_objects(self, stored: Object) -> None:
        """Delete all objects. Raises RetryLater while finalizers keep some."""
        name = stored["metadata"]["name"]
        found = self._registry.current.stored_type(name)
        type_id = self._journal.type_id(name)
        if found is None or not type_id:
            return
        self._deleting[type_id] = name
        refused = await self._delete_all(type_id, found.storage)
        with self._journal.read() as view:
            left = view.count(type_id)
        if refused:
            text = f"could not issue all deletes: {refused[0]}"
            await self._write_terminating(stored, "True", "InstanceDeletionFailed", text)
        if left or refused:
            raise RetryLater

    async def _delete_all(self, type_id: int, definition: Definition) -> list[RequestError]:
        refused: list[RequestError] = []
        after: Position | None = None
        while True:
            with self._journal.read() as view:
                rows = list(next_page(view, type_id, None, after))
            if not rows:
                return refused
            after = rows[-1][:2]
            keys = [(space, name) for space, name, row in rows if not is_being_deleted(row.body)]
            refused += await run_concurrently(partial(self._delete, definition), keys)
            await trio.lowlevel.checkpoint()

    async def _delete(self, definition: Definition, key: Position) -> None:
        try:
            await self._client.delete(definition, *key, DeleteOptions(), verb="deletecollection")
        except NotFound:
            return


def accept_names(stored: Object, resources: set[str], kinds: set[str]) -> tuple[Object, str, str]:
    """The accepted names, and reason and message of the conflict, if there is one. Pure.

    A name is accepted if no other definition of the group has it: `resources` and `kinds` are those of the others. The
    last conflict is reported. The texts and reasons of the conditions are part of the API.
    """
    requested, accepted = stored["spec"]["names"], stored["status"]["acceptedNames"]
    new: dict[str, Any] = dict(accepted)
    reason = message = ""
    for part, used, conflict in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        taken = list(_taken(requested.get(part), accepted.get(part), used))
        if taken:
            reason, message = conflict, _listed(taken)
        else:
            new[part] = requested.get(part)
    new["categories"] = requested.get("categories")
    return _without_missing(new), reason, message


def _taken(
    requested: str | list[str] | None, accepted: str | list[str] | None, used: set[str]
) -> Iterable[str]:
    if isinstance(requested, list):
        own = accepted or ()
        return (name for name in requested if name in used and name not in own)
    return (name for name in (requested,) if name and name != accepted and name in used)


def _listed(taken: list[str]) -> str:
    texts = [f"{quoted_start(name)} is already in use" for name in dict.fromkeys(taken)]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _without_missing(names: Object) -> Object:
    order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    return {part: names[part] for part in order if names.get(part) or part in ("plural", "kind")}


def naming_conditions(stored: Object, reason: str, message: str, now: str) -> list[Object]:
    """The conditions, with NamesAccepted and Established after a decision about the names."""
    conditions = stored["status"]["conditions"]
    if reason:
        conditions = with_condition(conditions, NAMES_ACCEPTED, "False", reason, message, now)
    else:
        conditions = with_condition(
            conditions, NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found", now
        )
    established = find_condition(stored, ESTABLISHED)
    if established is not None and established["status"] == "True":
        return conditions
    if not reason:
        text = "the initial names have been accepted"
        return with_condition(conditions, ESTABLISHED, "True", "InitialNamesAccepted", text, now)
    if established is None:
        text = "not all names are accepted"
        return with_condition(conditions, ESTABLISHED, "False", "NotAccepted", text, now)
    return conditions
