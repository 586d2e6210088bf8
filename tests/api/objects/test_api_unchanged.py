"""A PUT that changes nothing returns the current object: same version, no event."""

from __future__ import annotations

import pytest

from tests.actors.object_store import Document
from tests.gateway.api import Opener, everywhere, served
from tests.gateway.custom_api import generic

FULL: Document = {
    "metadata": {"name": "a", "labels": {"b": "2", "a": "1"}, "annotations": {"note": "ü"}},
    "data": {"z": "1", "a": ""},
    "binaryData": {"k": "AAE="},
}


@generic
async def test_unchanged_object_keeps_its_version(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", FULL)
        api.clock.advance(60)
        put = await api.replace("configmaps", made)
        assert put == await api.get("configmaps", "a")
        assert put["metadata"] == made["metadata"]
        assert (await api.list("configmaps"))["metadata"]["resourceVersion"] == made["metadata"][
            "resourceVersion"
        ]


@everywhere
@pytest.mark.parametrize(
    "body",
    [
        FULL,
        {**FULL, "metadata": {**FULL["metadata"], "labels": {"a": "1", "b": "2"}}},
        {**FULL, "metadata": {**FULL["metadata"], "finalizers": [], "ownerReferences": None}},
        {**FULL, "immutable": None},
        {**FULL, "data": {"a": None, "z": "1"}},
        {**FULL, "metadata": {**FULL["metadata"], "resourceVersion": "0", "uid": ""}},
        {**FULL, "metadata": {**FULL["metadata"], "selfLink": "/x", "generation": 9}},
    ],
    ids=[
        "as sent",
        "labels reordered",
        "empty lists",
        "null",
        "null in a map",
        "no version",
        "not the client's",
    ],
)
async def test_equivalent_values_keep_the_version(opened: Opener, body: Document) -> None:
    async with opened() as api:
        made = await api.create("configmaps", FULL)
        put = await api.replace("configmaps", body)
        assert put["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@generic
async def test_change_in_between_is_stored(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", FULL)
        changed = await api.replace("configmaps", {**FULL, "data": {"z": "2"}})
        assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
        back = await api.replace("configmaps", FULL)
        assert int(back["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


async def test_unchanged_put_is_200() -> None:
    async with served() as api:
        made = await api.create("configmaps", FULL)
        assert (await api.ask("PUT", api.path("configmaps", name="a"), made)).expect(200) == made
