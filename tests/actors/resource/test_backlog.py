"""Users whose commands an actor has no time for take turns; who has had the least time is first."""

from __future__ import annotations

from functools import partial

from trio.testing import wait_all_tasks_blocked

from rewound.actors.admission.chain import Admission
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Create, Outcome
from rewound.actors.resource.actor import ResourceActor
from rewound.actors.resource.backlog import Backlog
from rewound.actors.resource.decide import ActorContext
from rewound.actors.resource.write import Write
from tests.actors.kinds.crontabs import TYPE, crontabs
from tests.actors.object_store import Store, open_store


def create(store: Store, kind: Definition, user: str, name: str) -> Create:
    body = {"metadata": {"name": name}, "spec": {"schedule": "* * * * *"}}
    decoded = kind.schema.decode_object({"kind": kind.kind, "apiVersion": kind.api_version, **body}).object
    return Create(kind.api_version, "default", decoded, store.write_contexts.new(user, "m"))


async def test_command_of_another_user_waits_for_few_of_those_that_came_before() -> None:
    async with open_store() as store:
        await store.registry.register(kind := crontabs())
        stored = store.registry.current.stored_type(TYPE)
        assert stored is not None
        context = ActorContext(
            *(store.journal, store.committer, Admission([]), store.calls),
            *(store.directory.large_work, store.nursery),
            longest_step=-1.0,  # a step ends after each command
        )
        actor = ResourceActor(stored, context)
        ended: list[str] = []

        def done(name: str, _: Outcome | BaseException) -> None:
            ended.append(name)

        for number in range(20):
            name = f"alice-{number}"
            actor.tell(create(store, kind, "alice", name), partial(done, name))
        actor.tell(create(store, kind, "bob", "bob-0"), partial(done, "bob-0"))
        store.nursery.start_soon(actor.run)
        await wait_all_tasks_blocked()
        assert ended.index("bob-0") <= 2
        assert [name for name in ended if name != "bob-0"] == [f"alice-{number}" for number in range(20)]


async def test_user_with_the_least_time_is_first_and_newcomers_save_up_none() -> None:
    async with open_store() as store:
        await store.registry.register(kind := crontabs())

        def writes(*users: str) -> list[Write]:
            return [Write(create(store, kind, user, f"{user}-{n}")) for n, user in enumerate(users)]

        def users(ordered: list[Write]) -> list[str]:
            return [write.command.context.user for write in ordered]

        backlog = Backlog()
        waiting = writes("alice", "alice", "alice", "bob", "bob")
        assert users(backlog.order(waiting)) == ["alice", "bob", "alice", "bob", "alice"]
        assert backlog.order(waiting[:3]) == waiting[:3]
        backlog.order(waiting)
        backlog.charge(waiting[0], 0.02)
        backlog.charge(waiting[3], 0.01)
        assert users(backlog.order([*waiting, *writes("carol")]))[:2] == ["bob", "carol"]
        backlog.charge(waiting[3], 1.0)  # carol began with as much as bob had, so alice comes second
        assert users(backlog.order([*waiting, *writes("carol")]))[:3] == ["carol", "alice", "bob"]
        backlog.clear()
        assert not backlog
