"""Storage version migrations: every object of a resource is written again, so that it is stored in the current version.

Of the migrations of a resource one runs at a time, the oldest first. Its status records a resourceVersion; objects that
were written after that need nothing. A custom object that is stored in another version gets a new one; all others stay
as they are, since a write that changes nothing is none. When a CustomResourceDefinition is migrated, its status has the
condition StorageMigrating, and only the current version in `storedVersions` afterwards, unless the definition has
changed in the meantime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from rewound.actors.controllers.client import Client, run_concurrently
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.publication import outline
from rewound.actors.controllers.stored_objects import Position, next_page
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import Conflict, NotFound
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.storagemigration import FAILED, RUNNING, SUCCEEDED
from rewound.actors.kinds.values.times import micros_of, seconds_text
from rewound.actors.messages import Object
from rewound.actors.store.document import decode
from rewound.actors.store.misfits import each_usable
from rewound.actors.versions.features import STORAGE_MIGRATIONS
from rewound.journal.records import Event

NAME: Final = "storage-version-migrator-controller"
RUNNER: Final = "migration-runner-controller"  # the field manager of CustomResourceDefinitions
PATIENCE: Final = 60_000_000  # microseconds for a resource to be served
RETRY: Final = 5.0  # seconds until that is checked again
NEEDED_VERBS: Final = ("update", "patch", "list")


class StorageVersionMigrator:
    name = "storage version migrator"

    def __init__(self, context: ControllerContext) -> None:
        self._journal, self._registry = context.journal, context.registry
        self._definition = context.registry.current.storage(type_of_migrations(context))
        self._definitions = f"customresourcedefinitions.{context.names.group('apiextensions')}"
        self._type_id = context.journal.type_id(self._definition.type_name)
        self.observed_types = frozenset({self._type_id})
        user = f"system:serviceaccount:{context.names.system_namespace}:{NAME}"
        self._client = Client(context.directory, context.write_contexts, user, NAME)
        self._runner = Client(context.directory, context.write_contexts, user, RUNNER)
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                for migration in self._of_resource(event.body):
                    self.queue.add(migration["metadata"]["name"])

    async def catch_up(self) -> None:
        for migration in self._all():
            self.queue.add(migration["metadata"]["name"])

    def _all(self) -> list[Object]:
        """Oldest first."""
        found: list[Object] = []

        def take(_: str, __: str, body: bytes) -> None:
            stored = decode(body)
            made, name, resource = (
                stored["metadata"]["creationTimestamp"],
                stored["metadata"]["name"],
                stored["spec"]["resource"],
            )
            if type(made) is str and type(name) is str and type(resource) is dict:
                found.append(stored)

        with self._journal.read() as view:
            each_usable("storageversionmigrations", view.rows(self._type_id, ""), take)
        return sorted(found, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))

    def _of_resource(self, body: bytes) -> list[Object]:
        resource = decode(body)["spec"]["resource"]
        return [one for one in self._all() if one["spec"]["resource"] == resource]

    async def reconcile(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", key)
        if row is None:
            return
        migration = decode(row.body)
        try:
            if _is_ended(migration):
                if _is(migration, RUNNING):
                    await self._finish(migration)
            elif not _is(migration, RUNNING):
                others = self._of_resource(row.body)
                first = next(one for one in others if not _is_ended(one))
                if first["metadata"]["name"] == key and not any(_is(one, RUNNING) for one in others):
                    await self._begin(migration)
            elif "resourceVersion" not in migration["status"]:
                await self._set_version(migration)
            else:
                await self._migrate(migration)
        except (Conflict, NotFound):
            return  # it has changed in the meantime, and is in the queue again

    async def _begin(self, migration: Object) -> None:
        text = f"Migration {migration['metadata']['name']} is running"
        await self._mark_definition(migration, "True", "MigrationRunning", text)
        await self._add_condition(migration, RUNNING, "MigrationRunning", "The migration is running")

    async def _set_version(self, migration: Object) -> None:
        served = self._served(migration)
        if served is None:
            metadata = migration["metadata"]
            left = micros_of(metadata["creationTimestamp"]) + PATIENCE - self._client.now()
            if left > 0:  # it may be served soon
                self.queue.add_after(metadata["name"], min(left / 1_000_000, RETRY))
                return
            await self._fail(migration, "resource does not exist in discovery")
        elif not set(NEEDED_VERBS) <= set(served.verbs):
            name = f"{served.group}/{served.version}, Resource={served.plural}"
            verbs = " ".join(NEEDED_VERBS)
            await self._fail(migration, f'resource "{name}" does not support discovery operations: [{verbs}]')
        else:
            with self._journal.read() as view:
                version = str(view.head)
            await self._write(migration, {**migration["status"], "resourceVersion": version})

    def _served(self, migration: Object) -> Definition | None:
        resource, catalog = migration["spec"]["resource"], self._registry.current
        for version in catalog.groups().get(resource["group"], ()):
            if (found := catalog.find(resource["group"], version, resource["resource"])) is not None:
                return found
        return None

    async def _migrate(self, migration: Object) -> None:
        served, until = self._served(migration), int(migration["status"]["resourceVersion"])
        if served is None:
            error = "migration encountered unhandled error: unable to obtain GVR from discovery"
            await self._fail(migration, error)
            return
        type_id, after = self._journal.type_id(served.type_name), None

        async def rewrite(found: tuple[str, str, str, int]) -> None:
            namespace, name, uid, version = found
            metadata = {"uid": uid, "resourceVersion": str(version)}
            applied = {"apiVersion": served.api_version, "kind": served.kind, "metadata": metadata}
            try:
                await self._client.apply(served, namespace, name, applied)
            except (Conflict, NotFound):
                return  # written or deleted since then

        while True:
            page, after = self._page(type_id, after, until)
            if errors := await run_concurrently(rewrite, page):
                await self._fail(migration, f"migration encountered unhandled error: {errors[0]}")
                return
            if after is None:
                break
            await trio.lowlevel.checkpoint()
        await self._add_condition(migration, SUCCEEDED, "StorageVersionMigrationSucceeded", "")

    def _page(
        self, type_id: int, after: Position | None, until: int
    ) -> tuple[list[tuple[str, str, str, int]], Position | None]:
        found, last = [], None
        with self._journal.read() as view:
            for namespace, name, row in next_page(view, type_id, None, after):
                last = (namespace, name)
                if row.offset <= until:
                    uid = decode(row.body)["metadata"]["uid"]
                    found.append((namespace, name, uid, row.offset))
        return found, last

    async def _finish(self, migration: Object) -> None:
        if _is(migration, SUCCEEDED):
            text = "The migration has succeeded"
            await self._mark_definition(migration, "False", "MigrationSucceeded", text)
        else:
            await self._mark_definition(migration, "False", "MigrationFailed", "The migration has failed")
        status, metadata = migration["status"], migration["metadata"]
        ended = {
            "type": RUNNING,
            "status": "False",
            **({"observedGeneration": metadata["generation"]} if "generation" in metadata else {}),
            "lastTransitionTime": self._now(),
            "reason": "MigrationCompleted",
            "message": "Migration completed",
        }
        conditions = [ended if one["type"] == RUNNING else one for one in status["conditions"]]
        await self._write(migration, {**status, "conditions": conditions})

    async def _mark_definition(self, migration: Object, status: str, reason: str, text: str) -> None:
        """Write the condition of the CustomResourceDefinition, if the resource has one."""
        resource = migration["spec"]["resource"]
        name = f"{resource['resource']}.{resource['group']}"
        with self._journal.read() as view:
            row = view.get(self._journal.type_id(self._definitions), "", name)
        if row is None:
            return
        stored = outline(row.body)
        conditions = stored["status"].get("conditions") or ()
        generation = stored["metadata"].get("generation", 0)
        marked: Object = {}
        if reason == "MigrationSucceeded":
            known: Object = next((one for one in conditions if one["type"] == "StorageMigrating"), {})
            if known.get("observedGeneration") == generation:
                text += " and the stored versions have been updated"
                marked["storedVersions"] = [self._registry.current.storage(name).version]
            else:
                text += " but the stored versions have not been updated due to a generation mismatch"
        condition = {
            "type": "StorageMigrating",
            "status": status,
            "lastTransitionTime": self._now(),
            "reason": reason,
            "message": text,
            "observedGeneration": generation,
        }
        definition = self._registry.current.storage(self._definitions)
        applied = {
            "apiVersion": definition.api_version,
            "kind": definition.kind,
            "metadata": {"name": name, "resourceVersion": str(row.offset)},
            "status": {**marked, "conditions": [condition]},
        }
        await self._runner.apply(definition, "", name, applied, "status")

    async def _fail(self, migration: Object, text: str) -> None:
        await self._add_condition(migration, FAILED, "StorageVersionMigrationFailed", text)

    async def _add_condition(self, migration: Object, kind: str, reason: str, text: str) -> None:
        status = migration["status"]
        added = {
            "type": kind,
            "status": "True",
            "lastTransitionTime": self._now(),
            "reason": reason,
            "message": text,
        }
        await self._write(migration, {**status, "conditions": [*(status.get("conditions") or ()), added]})

    async def _write(self, migration: Object, status: Object) -> None:
        await self._client.replace(self._definition, {**migration, "status": status}, "status")

    def _now(self) -> str:
        return seconds_text(self._client.now())


def type_of_migrations(context: ControllerContext) -> str:
    return f"storageversionmigrations.{context.names.group('storagemigration')}"


def can_migrate(context: ControllerContext) -> bool:
    """Whether migrations exist, and are run."""
    known = context.registry.current.stored_type(type_of_migrations(context))
    return STORAGE_MIGRATIONS in context.features and known is not None


def _is(migration: Object, kind: str) -> bool:
    conditions = migration["status"].get("conditions") or ()
    return any((one["type"], one["status"]) == (kind, "True") for one in conditions)


def _is_ended(migration: Object) -> bool:
    return _is(migration, SUCCEEDED) or _is(migration, FAILED)
