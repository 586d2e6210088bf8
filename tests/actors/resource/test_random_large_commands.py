"""Commands decided in a thread have the same outcomes and events as those decided by the actor alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio

from rewound.actors.errors import RequestError
from rewound.actors.messages import Command
from rewound.journal.records import Event
from rewound.journal.repair import verify
from tests.actors.object_store import Store, open_store
from tests.actors.resource.random_commands import SPECS, RandomCommands


def large(command: Command) -> Command:
    """The same command, as if it had a large body."""
    context = command.context._replace(large=True)
    if isinstance(command, tuple):
        return command._replace(context=context)
    fields = {name: getattr(command, name) for name in command.__struct_fields__}
    return type(command)(**{**fields, "context": context})


async def ask(store: Store, plural: str, command: Command) -> Any:
    try:
        return await store.directory.ask(store.definition(plural), command)
    except RequestError as error:
        return type(error), str(error)


def events(store: Store, plural: str) -> list[Event]:
    with store.journal.read() as view:
        assert verify.verify(view).differences == []
        return list(view.events(0, type_id=store.journal.type_id(store.definition(plural).type_name)))


@pytest.mark.parametrize("plural", SPECS)
async def test_thread_decides_like_the_actor(plural: str) -> None:
    async with open_store() as threaded, open_store() as single:
        source = RandomCommands(threaded, plural, 3)
        for _ in range(60):
            command = source.next()
            expected = await ask(single, plural, command)
            assert await ask(threaded, plural, large(command)) == expected, command
            threaded.clock.advance(1)
            single.clock.advance(1)
        assert events(threaded, plural) == events(single, plural)
        assert threaded.directory.large_work.statistics().started >= 60


@pytest.mark.parametrize("plural", SPECS)
async def test_large_and_small_commands_at_once_keep_the_journal_sound(plural: str) -> None:
    async with open_store() as store:
        source, choice = RandomCommands(store, plural, 5), random.Random(5)
        for _ in range(10):
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    command = source.next()
                    nursery.start_soon(
                        ask, store, plural, large(command) if choice.random() < 0.5 else command
                    )
            store.clock.advance(1)
        last: dict[str, Event] = {}
        for event in events(store, plural):
            # Every event was decided on the previous one: none is lost, and none has two successors.
            before = last.get(event.name)
            alive = before is not None and not before.removed
            assert event.previous == (before.offset if before is not None and alive else 0)
            last[event.name] = event
