"""The actors of all resource types: starts one when its type is first written to, retires it when its type is removed.

The gateway sends commands to the actor of a definition through the directory. Types without writes have no actor, no
mailbox and no compiled schema. The directory follows the registry: an actor whose definitions changed uses the new ones
for its next command; the actor of a type that is no longer served refuses the commands in its mailbox and ends
after its last commit. Controllers may still write to such a type (`ask`), clients may not (`ask_served`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import trio

from rewound.actors.admission.calls import CallStatistics
from rewound.actors.admission.chain import Chain
from rewound.actors.errors import NoSuchResource
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Command, Outcome
from rewound.actors.resource.actor import ResourceActor
from rewound.actors.resource.decide import ActorContext
from rewound.actors.runtime.mailbox import MailboxStatistics
from rewound.actors.runtime.supervisor import Supervisor


class Directory:
    def __init__(
        self, registry: Registry, supervisor: Supervisor, nursery: trio.Nursery, context: ActorContext
    ) -> None:
        self._registry = registry
        self._context = context
        self.large_work = context.large_work
        self._supervisor = supervisor
        self._nursery = nursery
        self._served: dict[str, ResourceActor] = {}
        self._unserved: dict[
            str, ResourceActor
        ] = {}  # of types that are not served; each ends when it is idle
        registry.follow(self._kinds_changed)

    def ask_served(self, definition: Definition, command: Command) -> Coroutine[Any, Any, Outcome]:
        """Send a client's command; raises NoSuchResource if the type is no longer served.

        Not `async`: that would cost every write a coroutine.
        """
        name = definition.type_name
        actor = self._served.get(name) or self._start_served(name)
        return actor.ask(command)

    def ask(self, definition: Definition, command: Command) -> Coroutine[Any, Any, Outcome]:
        """Send a command of the server itself, also to types that are declared but not served."""
        return self.actor(definition).ask(command)

    def served_actor(self, type_name: str) -> ResourceActor:
        """Raises NoSuchResource if the type is not served."""
        return self._served.get(type_name) or self._start_served(type_name)

    def actor(self, definition: Definition) -> ResourceActor:
        name = definition.type_name
        return self._served.get(name) or self._unserved.get(name) or self._start(name)

    def start_soon(self, task: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Start a task that ends with the actors."""
        self._nursery.start_soon(task, *arguments)

    def statistics(self) -> dict[str, MailboxStatistics]:
        actors = {**self._served, **self._unserved}
        return {name: actor.statistics() for name, actor in actors.items()}

    def admission_chain(self, definition: Definition, operation: str, subresource: str) -> Chain:
        """The admission of what no actor stores, such as a TokenRequest."""
        return self._context.admission.chain(definition, operation, subresource)

    def admission_statistics(self) -> CallStatistics:
        return self._context.calls.statistics()

    def _start_served(self, type_name: str) -> ResourceActor:
        found = self._registry.current.stored_type(type_name)
        if found is None or not found.served:
            raise NoSuchResource
        return self._start(type_name)

    def _start(self, type_name: str) -> ResourceActor:
        found = self._registry.current.stored_type(type_name)
        if found is None:
            raise NoSuchResource
        actor = ResourceActor(found, self._context)
        if found.served:
            self._served[type_name] = actor
        else:
            actor.retire()
            self._unserved[type_name] = actor
        self._nursery.start_soon(self._run, actor)
        return actor

    async def _run(self, actor: ResourceActor) -> None:
        task = f"actor {actor.name}"

        async def until_idle() -> None:
            await actor.run()
            # No checkpoint since the end of `run`, so that no caller gets an actor that has ended.
            del self._unserved[actor.name]
            self._supervisor.forget(task)

        await self._supervisor.keep(task, until_idle)

    def _kinds_changed(self, previous: Catalog, following: Catalog) -> None:
        for type_name in following.changed_since(previous):
            actor = self._served.pop(type_name, None) or self._unserved.pop(type_name, None)
            if actor is None:
                continue
            found = following.stored_type(type_name)
            if found is not None and found.served:
                self._served[type_name] = actor
                actor.update_definitions(found)
            else:
                self._unserved[type_name] = actor
                actor.retire()
