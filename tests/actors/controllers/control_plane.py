"""A server without HTTP: journal, actors and controllers in virtual time, for the tests beside this file.

    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        ...
        await cluster.wait_until_idle()

To restart the server, leave the context and enter a new one on the same folder. With `controllers=False` no
controller runs; after a restart, controllers find what happened meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.actors.admission.caches import Namespaces
from rewound.actors.admission.calls import AdmissionCalls
from rewound.actors.admission.chain import Admission
from rewound.actors.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.actors.certificates.signing import Authorities
from rewound.actors.controllers.built_in import controllers
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Command, DeleteOptions, Object, Outcome
from rewound.actors.names import CLUSTER
from rewound.actors.resource.decide import ActorContext
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.large_work import LargeWork
from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.store.committer import Committer
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import V1_25, Release
from rewound.journal.log import Journal
from rewound.journal.records import Event
from tests.actors.certificates.shared_folder import own_certificates

START = 1_700_000_000_000_000


class VirtualClock:
    def now(self) -> int:
        return START + int(trio.current_time() * 1_000_000)


class InterruptibleDirectory(Directory):
    """A directory that runs a callback once, before it sends the next command of a controller."""

    _interruption: tuple[str, Callable[..., Awaitable[object]], tuple[object, ...]] | None = None

    def interrupt(
        self, controller: str, act: Callable[..., Awaitable[object]], args: tuple[object, ...]
    ) -> None:
        self._interruption = (controller, act, args)

    async def ask(self, definition: Definition, command: Command) -> Outcome:
        if self._interruption is not None and command.context.user.endswith(f":{self._interruption[0]}"):
            _, act, args = self._interruption
            self._interruption = None
            await act(*args)
        return await super().ask(definition, command)


class DelayableNamespaces(Namespaces):
    """Reports no namespace as terminating while `delayed` is set."""

    delayed = False

    def terminating(self, name: str) -> bool | None:
        return False if self.delayed else super().terminating(name)


class ControlPlane:
    def __init__(self, journal: Journal, nursery: trio.Nursery, release: Release) -> None:
        self.journal = journal
        self.release = release
        self.catalog = built_in(CLUSTER, release)
        journal.register_types(self.catalog.stored_types())
        self.feed = Feed(journal.head, journal)
        self.supervisor = Supervisor()
        self.clock = VirtualClock()
        self.write_contexts = WriteContexts(self.clock)
        self.namespaces = DelayableNamespaces(journal, self.feed)
        self.admission = Admission([NamespaceLifecycle(CLUSTER, self.namespaces)])
        committer = Committer(journal, self.feed)
        nursery.start_soon(committer.run)
        self.registry = Registry(self.catalog, committer.register_types)
        shared = ActorContext(journal, committer, self.admission, AdmissionCalls(), LargeWork(), nursery)
        self.directory = InterruptibleDirectory(self.registry, self.supervisor, nursery, shared)
        self.client = Client(self.directory, self.write_contexts, "client")
        self._nursery = nursery

    async def create_namespaces(self) -> None:
        """Those that every cluster has."""
        await Bootstrap(
            CLUSTER, self.catalog, self.journal, self.directory, self.write_contexts
        ).create_namespaces()

    async def start(self, controllers: bool, has_namespaces: bool = True, **options: Any) -> None:
        if has_namespaces:
            await self.create_namespaces()
        if controllers:
            self.start_controllers(**options)
            await self.wait_until_idle()

    def start_controllers(self, **options: Any) -> None:
        """Writes with these values in their context."""
        context = ControllerContext(
            CLUSTER,
            self.registry,
            self.journal,
            self.feed,
            self.directory,
            self.write_contexts,
            self.clock,
            AlwaysAllow(),
            Authorities(partial(own_certificates, CLUSTER.dialect)),
            release=self.release,
            **options,
        )
        for loop in controllers(context):
            self._nursery.start_soon(self.supervisor.keep, loop.name, loop.run)

    def before_write(self, controller: str, act: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run `act` just before the next write of a controller reaches its actor."""
        self.directory.interrupt(controller, act, args)

    @contextmanager
    def late_admission(self) -> Iterator[None]:
        """Admission allows creates in terminating namespaces, as if it had not seen the deletionTimestamp yet."""
        self.namespaces.delayed = True
        yield
        self.namespaces.delayed = False

    async def create(
        self,
        type_name: str,
        name: str,
        *,
        namespace: str = "default",
        owners: list[Object] | None = None,
        content: Object | None = None,
        **metadata: Any,
    ) -> Object:
        definition = self.catalog.storage(type_name)
        if owners:
            metadata["ownerReferences"] = owners
        new = definition.schema.decode_object(
            {**(content or {}), "metadata": {"name": name, **metadata}}
        ).object
        namespace = namespace if definition.namespaced else ""
        return decode(await self.client.create(definition, namespace, new))

    async def delete(
        self, type_name: str, name: str, policy: str = "Background", namespace: str = "default"
    ) -> None:
        definition = self.catalog.storage(type_name)
        namespace = namespace if definition.namespaced else ""
        options = DeleteOptions(propagation_policy=policy)
        await self.client.delete(definition, namespace, name, options)

    async def replace(self, type_name: str, changed: Object) -> None:
        await self.client.replace(self.catalog.storage(type_name), changed)

    async def remove_finalizers(self, type_name: str, name: str, namespace: str = "default") -> None:
        changed = self.get(type_name, name, namespace)
        assert changed is not None
        del changed["metadata"]["finalizers"]
        await self.replace(type_name, changed)

    async def empty_spec_finalizers(self, namespace: str) -> None:
        changed = self.get("namespaces", namespace)
        assert changed is not None
        changed["spec"] = {}
        await self.client.replace(self.catalog.storage("namespaces"), changed, "finalize")

    def get(self, type_name: str, name: str, namespace: str = "default") -> Object | None:
        where = namespace if self.catalog.storage(type_name).namespaced else ""
        with self.journal.read() as view:
            row = view.get(self.journal.type_id(type_name), where, name)
        return decode(row.body) if row is not None else None

    def is_being_deleted(self, type_name: str, name: str) -> bool:
        found = self.get(type_name, name)
        return found is not None and "deletionTimestamp" in found["metadata"]

    def names(self, type_name: str, namespace: str | None = "default") -> list[str]:
        with self.journal.read() as view:
            return [name for _, name, _ in view.rows(self.journal.type_id(type_name), namespace)]

    def events(self, type_name: str, name: str) -> list[Event]:
        type_id = self.journal.type_id(type_name)
        with self.journal.read() as view:
            return [event for event in view.events(0, type_id=type_id) if event.name == name]

    async def wait_until_idle(self, seconds: float = 0) -> None:
        """Let some time pass, then wait until all tasks are blocked."""
        await trio.sleep(seconds)
        await wait_all_tasks_blocked()


@asynccontextmanager
async def open_control_plane(
    path: Path, *, controllers: bool = True, release: Release = V1_25, **options: Any
) -> AsyncIterator[ControlPlane]:
    journal = Journal.open(path / "journal")
    try:
        async with trio.open_nursery() as nursery:
            cluster = ControlPlane(journal, nursery, release)
            await cluster.start(controllers, **options)
            yield cluster
            nursery.cancel_scope.cancel()
    finally:
        journal.close()
    restarts = {task.name: task.failing for task in cluster.supervisor.statistics().values() if task.restarts}
    assert not restarts, f"crashed: {restarts}"


def owner_reference(owner: Object, kind: str = "ConfigMap", **more: Any) -> Object:
    metadata = owner["metadata"]
    return {"apiVersion": "v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"], **more}
