"""Names: chosen, generated, taken, and free again after a delete."""

from __future__ import annotations

import random
import re

import pytest

from rewound.actors.runtime.write_context import LETTERS, WriteContexts
from tests.actors.object_store import Refused, open_store
from tests.gateway.api import Opener, config_map, everywhere, names, served


@everywhere
async def test_name_is_unique_per_namespace_and_kind(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", config_map("a"))
        with pytest.raises(Refused, match='configmaps "a" already exists') as refused:
            await api.create("configmaps", config_map("a"))
        assert refused.value.reason == "AlreadyExists"
        await api.create("configmaps", config_map("a"), "cluster-public")
        await api.create("secrets", {"metadata": {"name": "a"}})


@everywhere
async def test_name_of_a_deleted_object_can_be_used_again(opened: Opener) -> None:
    async with opened() as api:
        first = await api.create("configmaps", config_map("a"))
        await api.delete("configmaps", "a")
        second = await api.create("configmaps", config_map("a"))
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


@everywhere
async def test_generate_name_makes_a_unique_name(opened: Opener) -> None:
    async with opened() as api:
        made = [await api.create("configmaps", {"metadata": {"generateName": "web-"}}) for _ in range(5)]
        found = {one["metadata"]["name"] for one in made}
        assert len(found) == 5
        assert all(re.fullmatch(f"web-[{LETTERS}]{{5}}", name) for name in found)
        assert made[0]["metadata"]["generateName"] == "web-"


@everywhere
async def test_long_generate_name_is_shortened(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", {"metadata": {"generateName": "x" * 100}})
        assert made["metadata"]["name"][:58] == "x" * 58
        assert len(made["metadata"]["name"]) == 63


@everywhere
async def test_name_takes_precedence_over_generate_name(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", {"metadata": {"name": "given", "generateName": "web-"}})
        assert made["metadata"]["name"] == "given"


@everywhere
@pytest.mark.parametrize("base", ["Web-", "a/b", "-"])
async def test_invalid_generate_name_is_refused(opened: Opener, base: str) -> None:
    async with opened() as api:
        with pytest.raises(Refused) as refused:
            await api.create("configmaps", {"metadata": {"generateName": base}})
        assert refused.value.reason == "Invalid"


@everywhere
async def test_missing_name_is_refused(opened: Opener) -> None:
    async with opened() as api:
        with pytest.raises(Refused, match="name or generateName is required"):
            await api.create("configmaps", {"metadata": {}})


async def test_generated_name_that_is_taken_has_retry_after() -> None:
    async with open_store() as store:
        store.write_contexts = WriteContexts(store.clock, random.Random(1))
        await store.create("configmaps", {"metadata": {"generateName": "web-"}})
        store.write_contexts = WriteContexts(store.clock, random.Random(1))
        with pytest.raises(Refused, match="not able to generate a unique name") as refused:
            await store.create("configmaps", {"metadata": {"generateName": "web-"}})
        assert refused.value.reason == "AlreadyExists"


async def test_status_of_a_taken_generated_name_has_retry_after_seconds() -> None:
    async with served() as api:
        body = {"metadata": {"name": "a", "generateName": "web-"}}
        await api.create("configmaps", body)
        response = await api.ask("POST", api.path("configmaps"), body)
        assert response.expect(409)["details"]["retryAfterSeconds"] == 1
        assert response.headers["retry-after"] == "1"
        assert names(await api.list("configmaps")) == ["a"]
