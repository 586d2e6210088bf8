"""Commands decided in one batch have the same outcomes and events as commands decided one after the other."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from rewound.actors.errors import StorageRefused
from rewound.actors.messages import Command
from rewound.actors.resource.write import Write
from rewound.journal.batch import Batch
from rewound.journal.errors import StorageFull
from rewound.journal.log import OnPut
from rewound.journal.records import Event
from rewound.journal.repair import verify
from tests.actors.object_store import Store, open_store
from tests.actors.resource.random_commands import SPECS, RandomCommands


async def ask(store: Store, plural: str, commands: list[Command]) -> list[Any]:
    """Send all at once, as one batch; returns the outcomes, or type and text of the errors."""
    actor = store.directory.actor(store.definition(plural))
    writes = [Write(command) for command in commands]
    for write in writes:
        actor._mailbox.send_nowait(write)
    results: list[Any] = []
    for write in writes:
        try:
            results.append(await write.wait())
        except Exception as error:
            results.append((type(error), str(error).replace("not committed yet", "VERSION")))
    return results


def events(store: Store, plural: str) -> list[Event]:
    with store.journal.read() as view:
        assert verify.verify(view).differences == []
        return list(view.events(0, type_id=store.journal.type_id(store.definition(plural).type_name)))


@pytest.mark.parametrize("plural", SPECS)
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]
)
async def test_batches_have_the_outcomes_of_single_commands(plural: str, seed: int) -> None:
    async with open_store() as batched, open_store() as single:
        source, choice = RandomCommands(batched, plural, seed), random.Random(seed)
        for _ in range(25):
            commands = [source.next() for _ in range(choice.randint(1, 8))]
            expected = [(await ask(single, plural, [command]))[0] for command in commands]
            found = await ask(batched, plural, commands)
            for command, one, other in zip(commands, found, expected, strict=True):
                assert _comparable(one) == _comparable(other), command
            batched.clock.advance(1)
            single.clock.advance(1)
        assert events(batched, plural) == events(single, plural)


def _comparable(result: Any) -> Any:
    """Errors about versions name the version, which is unknown in a batch."""
    return result[0] if type(result) is tuple else result


@pytest.mark.parametrize("plural", ["configmaps", "leases", "pods"])
async def test_batches_after_failed_commits_are_decided_on_what_is_stored(plural: str) -> None:
    async with open_store() as failing, open_store() as single:
        write, choice = failing.journal.write, random.Random(7)
        full, refused = False, 0

        def write_or_fail(batch: Batch, on_put: OnPut | None = None) -> None:
            nonlocal refused
            if full:
                refused += 1
                raise StorageFull(Path("data"), "No space left on device")
            write(batch, on_put)

        failing.journal.write = write_or_fail  # type: ignore[method-assign]
        source = RandomCommands(failing, plural, 7)
        for _ in range(60):
            commands = [source.next() for _ in range(choice.randint(1, 8))]
            full = choice.random() < 0.4
            found = await ask(failing, plural, commands)
            if any(type(one) is tuple and one[0] is StorageRefused for one in found):
                continue
            expected = [(await ask(single, plural, [command]))[0] for command in commands]
            assert [_kind(one) for one in found] == [_kind(one) for one in expected]
        assert refused > 5
        assert [_unversioned(one) for one in events(failing, plural)] == [
            _unversioned(one) for one in events(single, plural)
        ]


def _kind(result: Any) -> Any:
    return result[0] if type(result) is tuple else type(result)


def _unversioned(event: Event) -> Any:
    version = b'"resourceVersion":"%d"' % event.offset
    assert version in event.body
    return event.verb, event.name, event.removed, event.body.replace(version, b"")
