"""The flow control controller: maintains the initial FlowSchemas and PriorityLevelConfigurations.

It also sets the condition Dangling of every FlowSchema. It restores a deleted initial object at once (Kubernetes within
a minute). It resets the spec of an initial object while the annotation autoupdate-spec is "true", always for the
mandatory ones; without the annotation, as long as the spec is unchanged. It deletes objects with that annotation that
are no longer initial ones: an earlier release created them. `Bootstrap` creates missing ones at start.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.stored_objects import Page, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import AlreadyExists, NotFound
from rewound.actors.flowcontrol.initial_objects import (
    EXEMPT,
    MANDATORY,
    SPEC_MANAGER,
    autoupdate_key,
    flow_schema_type,
    initial_object,
    initial_specs,
    priority_level_type,
)
from rewound.actors.identity import SERVER_USER
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.store.document import decode
from rewound.actors.versions.features import FLOW_STATUS_APPLIED
from rewound.journal.records import Event
from rewound.journal.view import View

STATUS_MANAGER = "api-priority-and-fairness-config-consumer-v1"
DANGLING = "Dangling"

TypeAndName = tuple[str, str]


class FlowControlController:
    name = "flow control controller"

    def __init__(self, context: ControllerContext) -> None:
        self._registry = context.registry
        self._journal = context.journal
        self._names, self._features = context.names, context.features
        self._schemas, self._levels = flow_schema_type(context.names), priority_level_type(context.names)
        self._types = {context.journal.type_id(one): one for one in (self._schemas, self._levels)}
        self.observed_types = frozenset(self._types)
        directory, contexts = context.directory, context.write_contexts
        self._client = Client(directory, contexts, SERVER_USER, SPEC_MANAGER)
        self._status_client = Client(directory, contexts, SERVER_USER, STATUS_MANAGER)
        self.queue: WorkQueue[TypeAndName] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            type_name = self._types.get(event.type_id)
            if type_name is None:
                continue
            self.queue.add((type_name, event.name))
            if type_name == self._levels and (event.removed or not event.previous):
                self._add_schemas_of(event.name)

    def _add_schemas_of(self, level: str) -> None:
        """Their condition Dangling may change. There are few FlowSchemas, and levels are rarely added or removed."""
        with self._journal.read() as view:
            for _, name, row in view.rows(self._journal.type_id(self._schemas), ""):
                with suppress(*OF_MISFITS):  # `reconcile` leaves it out
                    if _level_of(decode(row.body)) == level:
                        self.queue.add((self._schemas, name))

    async def catch_up(self) -> None:
        for type_name in self._types.values():
            type_id = self._journal.type_id(type_name)
            await take_pages(self._journal, type_id, "", partial(self._take, type_name))

    def _take(self, type_name: str, view: View, page: Page) -> None:
        for _, name, _ in page:
            self.queue.add((type_name, name))

    async def reconcile(self, key: TypeAndName) -> None:
        type_name, name = key
        stored = self._read(type_name, name)
        if stored is None:
            await self._restore(type_name, name)
        elif not await self._maintain_spec(type_name, stored) and type_name == self._schemas:
            await self._report_dangling(stored)

    def _read(self, type_name: str, name: str) -> Object | None:
        with self._journal.read() as view:
            row = view.get(self._journal.type_id(type_name), "", name)
        return None if row is None else decode(row.body)

    async def _restore(self, type_name: str, name: str) -> None:
        if name not in initial_specs(self._names, self._features)[type_name]:
            return
        definition = self._registry.current.storage(type_name)
        initial = initial_object(self._names, self._features, type_name, name)
        new = definition.schema.decode_object(initial).object
        try:
            await self._client.create(definition, "", new)
        except AlreadyExists:
            return

    async def _maintain_spec(self, type_name: str, stored: Object) -> bool:
        """Reset the spec. Returns whether it wrote or deleted the object: then its event calls `reconcile` again."""
        name, key = stored["metadata"]["name"], autoupdate_key(self._names)
        annotations = stored["metadata"].get("annotations") or {}
        definition = self._registry.current.storage(type_name)
        spec = initial_specs(self._names, self._features)[type_name].get(name)
        if spec is None:
            if annotations.get(key) != "true":
                return False
            unchanged = DeleteOptions(resource_version=stored["metadata"]["resourceVersion"])
            try:
                await self._client.delete(definition, "", name, unchanged)
            except NotFound:
                pass
            return True
        update = "true" if name in MANDATORY else _autoupdate(stored, annotations.get(key))
        if spec is not None and name == EXEMPT and "exempt" in spec and stored["spec"].get("exempt"):
            spec = {**spec, "exempt": stored["spec"]["exempt"]}  # the only part that clients may change
        if annotations.get(key) == update and (update == "false" or stored["spec"] == spec):
            return False
        stored["metadata"]["annotations"] = {**annotations, key: update}
        if update == "true":
            stored["spec"] = spec
        await self._client.replace(definition, stored)
        return True

    async def _report_dangling(self, schema: Object) -> None:
        level = _level_of(schema)
        missing = self._read(self._levels, level) is None
        wanted = _dangling_condition(level, missing=missing)
        conditions = schema["status"].get("conditions", [])
        current: Object = next((one for one in conditions if one.get("type") == DANGLING), {})
        if {key: current.get(key) for key in wanted} == wanted:
            return
        if current.get("status") != wanted["status"]:
            wanted["lastTransitionTime"] = seconds_text(self._client.now())
        elif "lastTransitionTime" in current:
            wanted["lastTransitionTime"] = current["lastTransitionTime"]
        try:
            await self._write_condition(schema, wanted)
        except NotFound:
            return

    async def _write_condition(self, schema: Object, wanted: Object) -> None:
        if FLOW_STATUS_APPLIED in self._features:
            definition = self._newest_version()
            name = schema["metadata"]["name"]
            applied = {
                "apiVersion": definition.api_version,
                "kind": definition.kind,
                "metadata": {"name": name},
                "status": {"conditions": [wanted]},
            }
            await self._status_client.apply(definition, "", name, applied, "status")
            return
        others = [one for one in schema["status"].get("conditions", []) if one.get("type") != DANGLING]
        schema["status"]["conditions"] = [*others, wanted]
        await self._status_client.replace(self._registry.current.storage(self._schemas), schema, "status")

    def _newest_version(self) -> Definition:
        catalog = self._registry.current
        storage = catalog.storage(self._schemas)
        found = (catalog.find(storage.group, version, storage.plural) for version in ("v1", "v1beta3"))
        return next(filter(None, found), storage)


def _level_of(schema: Object) -> str:
    name: str = schema["spec"]["priorityLevelConfiguration"]["name"]
    return name


def _autoupdate(stored: Object, annotated: str | None) -> str:
    """Whether the server maintains the spec of a suggested object, "true" or "false"."""
    if annotated in ("true", "false"):
        return annotated
    return "true" if stored["metadata"].get("generation") == 1 else "false"


def _dangling_condition(level: str, *, missing: bool) -> Object:
    named = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    if missing:
        status, reason, message = "True", "NotFound", f"{named} but there is no such object"
    else:
        status, reason, message = "False", "Found", f"{named} and it exists"
    return {"type": DANGLING, "status": status, "reason": reason, "message": message}
