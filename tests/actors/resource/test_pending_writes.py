"""Writes to an object whose last write is not committed yet, so that no client knows its version."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest
import trio

from rewound.actors.errors import Conflict, RequestError, Unprocessable
from rewound.actors.messages import Command, Delete, DeleteOptions, Patch, Replace, Written
from rewound.actors.resource.proposing import Decided, Keep
from rewound.actors.resource.write import Write, complete_all
from rewound.actors.store.proposal import Proposal
from rewound.journal.records import Event
from tests.actors.object_store import Store, open_store
from tests.cases import cases


def config_map(**data: str) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "data": data}


async def in_one_batch(store: Store, plural: str, *commands: Command) -> list[Any]:
    """Send commands at once, so that they are decided in one batch; returns their outcomes or errors."""
    results: list[Any] = [None] * len(commands)

    async def ask(index: int, command: Command) -> None:
        try:
            results[index] = await store.directory.ask(store.definition(plural), command)
        except RequestError as error:
            results[index] = error

    before = store.committer.statistics().commits
    async with trio.open_nursery() as nursery:
        for index, command in enumerate(commands):
            nursery.start_soon(ask, index, command)
    assert store.committer.statistics().commits <= before + 1
    return results


def events(store: Store, plural: str) -> list[Event]:
    with store.journal.read() as view:
        return list(view.events(0, type_id=store.journal.type_id(store.definition(plural).type_name)))


def body(result: Any) -> Any:
    return orjson.loads(result.body)


def replaced(store: Store, version: str = "", **data: str) -> Replace:
    new = store.definition("configmaps").schema.decode_object(config_map(**data)).object
    if version:
        new["metadata"]["resourceVersion"] = version
    return Replace("v1", "default", "a", new, store.write_contexts.new("u", "m"))


def patched(store: Store, patch: Any, **more: Any) -> Patch:
    return Patch("v1", "default", "a", "merge", patch, store.write_contexts.new("u", "m"), **more)


async def test_each_reply_has_the_version_of_its_own_event() -> None:
    async with open_store() as store:
        await store.create("configmaps", config_map(x="0"))
        results = await in_one_batch(store, "configmaps", *(replaced(store, x=text) for text in "123"))
        first, *later = events(store, "configmaps")
        assert [event.previous for event in later] == [first.offset, later[0].offset, later[1].offset]
        shown = {body(one)["data"]["x"]: body(one)["metadata"]["resourceVersion"] for one in results}
        stored_ = {orjson.loads(one.body)["data"]["x"]: str(one.offset) for one in later}
        assert shown == stored_
        assert all(orjson.loads(one.body)["metadata"]["resourceVersion"] == str(one.offset) for one in later)


async def test_write_with_a_resource_version_conflicts() -> None:
    async with open_store() as store:
        made = await store.create("configmaps", config_map(x="0"))
        version = made["metadata"]["resourceVersion"]
        results = await in_one_batch(
            store, "configmaps", *(replaced(store, version, x=text) for text in "12")
        )
        assert sorted(type(one).__name__ for one in results) == ["Conflict", "Written"]
        deletes = [
            Delete(
                "v1",
                "default",
                "a",
                store.write_contexts.new("u", "m"),
                DeleteOptions(resource_version=str(number)),
            )
            for number in range(3)
        ]
        results = await in_one_batch(store, "configmaps", replaced(store, x="3"), *deletes)
        assert sorted(type(one).__name__ for one in results) == ["Conflict"] * 3 + ["Written"]


async def test_patches_and_unchanged_writes_have_the_right_versions() -> None:
    async with open_store() as store:
        await store.create("configmaps", config_map(x="0"))
        results = await in_one_batch(
            store,
            "configmaps",
            patched(store, {"data": {"x": "1"}}),
            patched(store, {"data": {"x": "1"}}),
            patched(store, {"data": {"y": "1"}}),
            patched(store, {"data": {"x": "1", "z": "1"}}, dry_run=True),
            patched(store, {"data": {}, "metadata": {"resourceVersion": "1"}}),
        )
        assert [type(one).__name__ for one in results].count("Written") == 4
        known = {str(event.offset) for event in events(store, "configmaps")}
        written = [body(one) for one in results if not isinstance(one, RequestError)]
        assert {one["metadata"]["resourceVersion"] for one in written} <= known
        assert [type(one).__name__ for one in results if isinstance(one, RequestError)] == ["Conflict"]
        final = await store.get("configmaps", "a")
        assert final["data"] == {"x": "1", "y": "1"}


async def test_kind_that_requires_a_version_can_be_patched_twice_at_once() -> None:
    async with open_store() as store:
        lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}}
        made = await store.create("leases", lease)
        version = store.definition("leases").api_version
        commands = [
            Patch(
                version,
                "default",
                "a",
                "merge",
                {"spec": {"leaseTransitions": count}},
                store.write_contexts.new("u", "m"),
            )
            for count in (1, 2, 3)
        ]
        results = await in_one_batch(store, "leases", *commands)
        assert [type(one).__name__ for one in results] == ["Written"] * 3
        assert len(events(store, "leases")) == 4
        assert int((await store.get("leases", "a"))["metadata"]["resourceVersion"]) > int(
            made["metadata"]["resourceVersion"]
        )


async def test_delete_of_an_uncommitted_object_has_its_version() -> None:
    async with open_store() as store:
        await store.create("configmaps", config_map(x="0"))
        context = store.write_contexts.new("u", "m")
        results = await in_one_batch(
            store, "configmaps", replaced(store, x="1"), Delete("v1", "default", "a", context)
        )
        by_type = {type(one).__name__: one for one in results}
        _, *later = events(store, "configmaps")
        if "NotFound" not in by_type and len(later) == 2 and later[1].removed:
            assert body(by_type["Deleted"])["metadata"]["resourceVersion"] == str(later[0].offset)
            assert later[1].previous == later[0].offset


@cases(
    ("operation", "outcome"),
    [
        ({"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}, Conflict),
        ({"op": "add", "path": "/metadata/resourceVersion", "value": "1"}, Conflict),
        ({"op": "test", "path": "/metadata/resourceVersion", "value": "1"}, Unprocessable),
        ({"op": "remove", "path": "/metadata/resourceVersion"}, Written),
    ],
    ids=lambda one: one["op"] if isinstance(one, dict) else one.__name__,
)
@cases("pending", [True, False])
async def test_json_patch_of_the_version_has_the_same_outcome_before_and_after_the_commit(
    pending: bool, operation: dict[str, str], outcome: type
) -> None:
    async with open_store() as store:
        await store.create("configmaps", config_map(x="0"))
        context = store.write_contexts.new("u", "m")
        patch = Patch("v1", "default", "a", "json", [operation], context)
        actor = store.directory.actor(store.definition("configmaps"))
        first, second = Write(replaced(store, x="1")), Write(patch)
        actor._mailbox.send_nowait(first)
        if not pending:
            await first.wait()
        actor._mailbox.send_nowait(second)
        try:
            result: Any = await second.wait()
        except RequestError as error:
            result = error
        assert type(result) is outcome


async def test_reply_that_cannot_be_encoded_does_not_affect_the_others() -> None:
    async with open_store() as store:
        broken, other = Write(replaced(store)), Write(replaced(store))
        broken.decided = other.decided = Decided(Keep(), None, "update")
        broken.body, other.body = (b"{}", cast(Proposal, 7)), b"{}"
        complete_all([broken, other], None)
        with pytest.raises(ValueError, match="no empty version"):
            await broken.wait()
        assert (await other.wait()).body == b"{}"
