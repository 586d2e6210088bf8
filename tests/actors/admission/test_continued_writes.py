"""Writes that continue after an asynchronous step have the same results as without one, and are prepared once."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Plugin, rule
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.errors import RequestError
from rewound.actors.messages import Command, Create, Object, Patch, Replace
from rewound.journal.records import Event
from rewound.journal.repair import verify
from tests.actors.object_store import Store, open_store
from tests.actors.resource.random_commands import SPECS, RandomCommands

EVERY = (rule(CREATE, UPDATE, DELETE, subresources=None),)


class Asked(AsyncPlugin):
    """Changes nothing, and records the objects that it got."""

    name = "Asked"

    def __init__(self) -> None:
        self.objects: list[Object | None] = []

    async def admit(self, request: AdmissionRequest) -> Admitted:
        self.objects.append(request.object)
        await trio.lowlevel.checkpoint()
        return Admitted()


class Mutating(Asked):
    mutates = EVERY


class Validating(Asked):
    validates = EVERY


class Last(Plugin):
    """A validating plugin that runs after the asynchronous ones."""

    name = "Last"
    validates = EVERY

    def __init__(self) -> None:
        self.objects: list[Object | None] = []

    def validate(self, request: AdmissionRequest) -> None:
        self.objects.append(request.object)


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
async def test_continued_writes_are_like_others(plural: str, autojump_clock: MockClock) -> None:
    asked = Mutating(), Validating()
    async with open_store(*asked) as continued, open_store() as single:
        source = RandomCommands(continued, plural, 3)
        for _ in range(60):
            command = source.next()
            expected = await ask(single, plural, command)
            assert await ask(continued, plural, command) == expected, command
            continued.clock.advance(1)
            single.clock.advance(1)
        assert events(continued, plural) == events(single, plural)
        assert all(len(one.objects) > 20 for one in asked)


@pytest.mark.parametrize("verb", ["create", "replace", "patch", "apply"])
async def test_object_is_prepared_once(verb: str, autojump_clock: MockClock) -> None:
    validating, last = Validating(), Last()
    async with open_store(validating, last) as store:
        definition = store.definition("configmaps")
        context = store.write_contexts.new("u", "m")
        if verb != "create":
            await store.create("configmaps", {"metadata": {"name": "a"}})
        sent = {"metadata": {"name": "a"}, "data": {"x": "y"}}
        applied = {"apiVersion": "v1", "kind": "ConfigMap", **sent}
        command: Command = {
            "create": Create("v1", "default", definition.schema.decode_object(sent).object, context),
            "replace": Replace("v1", "default", "a", definition.schema.decode_object(sent).object, context),
            "patch": Patch("v1", "default", "a", "merge", {"data": {"x": "y"}}, context),
            "apply": Patch("v1", "default", "a", "apply", applied, context, force=True),
        }[verb]
        await store.directory.ask(definition, command)
        assert (await store.get("configmaps", "a"))["data"] == {"x": "y"}
        assert last.objects[-1] is validating.objects[-1]


async def test_warnings_of_a_write_come_once(autojump_clock: MockClock) -> None:
    """Warnings from decoding a patch and about the object, with and without an asynchronous step."""
    found = []
    for plugins in ((), (Mutating(), Validating())):
        async with open_store(*plugins) as store:
            await store.create("configmaps", {"metadata": {"name": "a"}})
            owner = {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "1"}
            patch = {"metadata": {"ownerReferences": [owner, owner]}, "unknown": 1}
            context = store.write_contexts.new("u", "m")
            command = Patch("v1", "default", "a", "merge", patch, context, field_validation="Warn")
            found.append(await store.directory.ask(store.definition("configmaps"), command))
    assert found[0].warnings == found[1].warnings and len(found[0].warnings) == 2
