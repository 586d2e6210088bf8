"""Random writes with asynchronous admission, cancelled callers and failed commits: every request completes once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Plugin, rule
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, RequestError, Resource
from rewound.actors.messages import Object
from rewound.journal.batch import Batch
from rewound.journal.errors import StorageFull
from rewound.journal.log import OnPut
from rewound.journal.records import Event
from rewound.journal.repair import verify
from tests.actors.object_store import open_store
from tests.actors.resource.random_commands import RandomCommands

CONFIG_MAPS, SERVICES = Resource("", "configmaps"), Resource("", "services")
ALL = (rule(CREATE, UPDATE, DELETE, of=(CONFIG_MAPS, SERVICES)),)
CLIENTS, WRITES = 8, 15
PATIENT = 600.0  # seconds; far longer than all retries of a write


class Outside(AsyncPlugin):
    """Takes up to three seconds; refuses some writes."""

    name = "Outside"

    def __init__(self, source: random.Random) -> None:
        self._random = source

    async def admit(self, request: AdmissionRequest) -> Admitted:
        await trio.sleep(self._random.choice((0, 0, 1, 2, 3)))
        if self._random.random() < 0.1:
            raise Forbidden(request.definition.resource, request.name, "no")
        return Admitted(warnings=("asked",))


class Mutating(Outside):
    mutates = ALL


class Validating(Outside):
    validates = ALL


class Counting(Plugin):
    """Counts how often each request is completed."""

    name = "Counting"
    completes = (rule(CREATE, UPDATE, of=(CONFIG_MAPS, SERVICES)),)

    def __init__(self) -> None:
        self.results: list[list[bool]] = []

    def complete(self, request: AdmissionRequest) -> Object | None:
        results: list[bool] = []
        self.results.append(results)
        request.callbacks += (results.append,)
        return None


@pytest.mark.parametrize("plural", ["configmaps", "services"])
@pytest.mark.parametrize("seed", range(4))
async def test_every_request_completes_once(plural: str, seed: int, autojump_clock: MockClock) -> None:
    source, counting = random.Random(seed), Counting()
    async with open_store(Mutating(source), counting, Validating(source)) as store:
        encode, write, durable = store.journal.encode, store.journal.write, 0
        changes: dict[Batch, int] = {}
        definition, commands = store.definition(plural), RandomCommands(store, plural, seed)
        actor = store.directory.actor(definition)

        def encode_and_count(events: Sequence[Event]) -> Batch:
            batch = encode(events)
            changes[batch] = sum(event.verb not in ("delete", "deletecollection") for event in events)
            return batch

        def write_or_fail(batch: Batch, on_put: OnPut | None = None) -> None:
            nonlocal durable
            if source.random() < 0.1:
                raise StorageFull(Path("data"), "No space left on device")
            write(batch, on_put)
            durable += changes[batch]

        async def send() -> None:
            for _ in range(WRITES):
                patience = source.choice((1.5, 4.5, PATIENT, PATIENT, PATIENT))
                with trio.move_on_after(patience) as scope, suppress(RequestError):
                    await store.directory.ask(definition, commands.next())
                assert patience < PATIENT or not scope.cancelled_caught

        async def update_definitions() -> None:
            """Stop serving the kind, and serve it again at once."""
            stored_type = store.catalog.stored_type(definition.type_name)
            assert stored_type is not None
            for _ in range(5):
                await trio.sleep(7)
                actor.retire()
                actor.update_definitions(stored_type)

        store.journal.encode = encode_and_count  # type: ignore[method-assign,assignment]
        store.journal.write = write_or_fail  # type: ignore[method-assign]
        with trio.fail_after(3600):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(update_definitions)
                for _ in range(CLIENTS):
                    nursery.start_soon(send)
            await trio.sleep(60)
        assert store.directory.admission_statistics().running == 0
        assert not actor._waiting and not actor._pending
        assert {len(results) for results in counting.results} == {1}
        assert sum(result for (result,) in counting.results) == durable
        with store.journal.read() as view:
            assert verify.verify(view).differences == []
        _check_allocations(store)


def _check_allocations(store: Any) -> None:
    plugins = store.directory._context.admission._plugins
    allocated = next(one._allocated for one in plugins if one.name == "ServiceAllocation")
    assert allocated.statistics()[1] == 0
    assert min(allocated._counts.values(), default=0) >= 0
    assert min(allocated._reserved.values(), default=0) >= 0
