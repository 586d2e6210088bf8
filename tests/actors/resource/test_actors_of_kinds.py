"""The directory starts and retires actors with their types; a retired actor completes its commits first."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.admission.chain import Admission
from rewound.actors.errors import NoSuchResource
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.fields import STRING, Field
from rewound.actors.messages import Create, Delete, DeleteOptions, Outcome
from rewound.actors.resource.actor import ResourceActor
from rewound.actors.resource.decide import ActorContext
from tests.actors.kinds.crontabs import TYPE, crontabs
from tests.actors.object_store import Store, open_store


def create(store: Store, kind: Definition, name: str, **spec: object) -> Create:
    body = {"metadata": {"name": name}, "spec": {"schedule": "* * * * *", **spec}}
    decoded = kind.schema.decode_object({"kind": kind.kind, "apiVersion": kind.api_version, **body}).object
    return Create(kind.api_version, "default", decoded, store.write_contexts.new("u", "m"))


def delete(store: Store, kind: Definition, name: str) -> Delete:
    return Delete(kind.api_version, "default", name, store.write_contexts.new("u", "m"), DeleteOptions())


def at_rest(store: Store) -> ResourceActor:
    """An actor whose `run` was not started: commands wait in its mailbox."""
    found = store.registry.current.stored_type(TYPE)
    assert found is not None
    large = store.directory.large_work
    context = ActorContext(store.journal, store.committer, Admission([]), store.calls, large, store.nursery)
    return ResourceActor(found, context)


async def test_actor_starts_with_the_first_write_to_its_type() -> None:
    async with open_store() as store:
        await store.registry.register(kind := crontabs())
        assert TYPE not in store.directory.statistics()
        await store.directory.ask_served(kind, create(store, kind, "a"))
        assert store.directory.statistics()[TYPE].received == 1


async def test_waiting_commands_are_refused_when_the_type_is_removed() -> None:
    async with open_store() as store:
        await store.registry.register(kind := crontabs())
        actor = at_rest(store)
        refused: list[str] = []

        async def ask(name: str) -> None:
            with pytest.raises(NoSuchResource):
                await actor.ask(create(store, kind, name))
            refused.append(name)

        async with trio.open_nursery() as nursery:
            for name in ("a", "b"):
                nursery.start_soon(ask, name)
            await wait_all_tasks_blocked()
            actor.retire()
        assert sorted(refused) == ["a", "b"]
        await actor.run()  # which ends at once
        with pytest.raises(NoSuchResource):
            await actor.ask(create(store, kind, "c"))


async def test_retired_actor_ends_and_its_statistics_are_dropped() -> None:
    async with open_store() as store:
        await store.registry.register(kind := crontabs())
        await store.directory.ask_served(kind, create(store, kind, "a"))
        store.registry.retire(TYPE)
        await wait_all_tasks_blocked()
        assert TYPE not in store.directory.statistics()
        assert f"actor {TYPE}" not in store.supervisor.statistics()
        with pytest.raises(NoSuchResource):
            await store.directory.ask_served(kind, create(store, kind, "b"))


async def test_server_may_delete_objects_of_a_type_that_is_not_served() -> None:
    async with open_store() as store:
        await store.registry.register(kind := crontabs())
        await store.directory.ask_served(kind, create(store, kind, "a"))
        store.registry.retire(TYPE)
        await store.directory.ask(kind, delete(store, kind, "a"))
        await wait_all_tasks_blocked()
        assert TYPE not in store.directory.statistics()
        with store.journal.read() as view:
            assert view.count(store.journal.type_id(TYPE)) == 0


async def test_type_registered_again_has_its_objects() -> None:
    async with open_store() as store:
        await store.registry.register(kind := crontabs())
        await store.directory.ask_served(kind, create(store, kind, "a"))
        store.registry.retire(TYPE)
        await store.registry.register(again := crontabs())
        outcome = await store.directory.ask_served(again, delete(store, again, "a"))
        assert b'"name":"a"' in outcome.body


async def test_removed_type_has_no_actor_even_for_the_server() -> None:
    async with open_store() as store:
        await store.registry.register(kind := crontabs())
        store.registry.remove(TYPE)
        with pytest.raises(NoSuchResource):
            await store.directory.ask(kind, create(store, kind, "a"))


async def test_waiting_commands_are_decided_with_updated_definitions() -> None:
    async with open_store() as store:
        await store.registry.register(kind := crontabs())
        actor, newer = at_rest(store), crontabs("v2", Field("image", STRING, 3))
        outcomes: dict[str, Outcome] = {}

        async def ask(definition: Definition, name: str, spec: dict[str, str] | None = None) -> None:
            outcomes[name] = await actor.ask(create(store, definition, name, **spec or {}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, kind, "a")
            await wait_all_tasks_blocked()
            await store.registry.register(crontabs(), newer)
            found = store.registry.current.stored_type(TYPE)
            assert found is not None
            actor.update_definitions(found)
            nursery.start_soon(ask, newer, "b", {"image": "x"})
            nursery.start_soon(actor.run)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert sorted(outcomes) == ["a", "b"]
        assert b'"image":"x"' in outcomes["b"].body


async def test_one_actor_handles_all_versions_of_its_type() -> None:
    async with open_store() as store:
        await store.registry.register(kind := crontabs())
        await store.directory.ask_served(kind, create(store, kind, "a"))
        await store.registry.register(crontabs(), newer := crontabs("v2"))
        await store.directory.ask_served(newer, create(store, newer, "b"))
        assert store.directory.statistics()[TYPE].received == 2


async def test_command_of_a_removed_version_is_refused() -> None:
    async with open_store() as store:
        newer = crontabs("v2")
        await store.registry.register(crontabs(), newer)
        await store.registry.register(crontabs())
        with pytest.raises(NoSuchResource):
            await store.directory.ask_served(newer, create(store, newer, "a"))
