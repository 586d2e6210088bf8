"""All pages of a list show the state at its first page, whatever is written meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.actors.object_store import Document, Verbs
from tests.gateway.api import Opener, config_map, everywhere, labelled, names
from tests.gateway.custom_api import generic


async def pages(
    api: Verbs, *, limit: int, between: Any = None, namespace: str | None = "default", **query: Any
):
    """All pages of a list; calls a function after each page but the last."""
    found: list[Document] = []
    token = ""
    while True:
        more = {"continue": token} if token else {}
        found.append(await api.list("configmaps", namespace, limit=limit, **more, **query))
        token = found[-1]["metadata"].get("continue", "")
        if not token:
            return found
        if between is not None:
            await between(len(found))


def contents(found: list[Document]) -> list[Document]:
    return [item for page in found for item in page["items"]]


@generic
async def test_writes_between_pages_are_not_visible(opened: Opener) -> None:
    async with opened() as api:
        for number in range(8):
            await api.create("configmaps", config_map(f"c{number}", text="old"))
        before = await api.list("configmaps")

        async def between(page: int) -> None:
            await api.create("configmaps", config_map(f"c{page * 2}-new"))
            await api.replace("configmaps", config_map(f"c{page * 2}", text="new"))
            await api.delete("configmaps", f"c{page * 2 + 1}")

        found = await pages(api, limit=2, between=between)
        assert contents(found) == before["items"]
        assert {page["metadata"]["resourceVersion"] for page in found} == {
            before["metadata"]["resourceVersion"]
        }
        assert len(found) == 4


@generic
async def test_snapshot_covers_all_namespaces(opened: Opener) -> None:
    async with opened() as api:
        spaces = ["cluster-public", "cluster-system", "default"]
        for space in spaces:
            for number in range(3):
                await api.create("configmaps", config_map(f"c{number}"), space)
        before = await api.list("configmaps", None)

        async def between(_: int) -> None:
            for space in spaces:
                await api.delete_collection("configmaps", space)

        found = await pages(api, limit=2, between=between, namespace=None)
        assert contents(found) == before["items"]
        assert [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in contents(found)] == [
            (space, f"c{number}") for space in spaces for number in range(3)
        ]
        assert names(await api.list("configmaps", None)) == []


@generic
async def test_selection_is_that_of_the_first_page(opened: Opener) -> None:
    async with opened() as api:
        for number in range(6):
            await api.create("configmaps", labelled(f"c{number}", side="left" if number % 2 else "right"))

        async def between(_: int) -> None:
            for number in range(6):
                await api.replace(
                    "configmaps", labelled(f"c{number}", side="right" if number % 2 else "left")
                )

        found = await pages(api, limit=1, between=between, labelSelector="side=left")
        assert [names(page) for page in found] == [["c1"], ["c3"], ["c5"]]


@generic
async def test_token_may_be_used_twice_and_after_a_restart(opened: Opener) -> None:
    async with opened() as api:
        for number in range(6):
            await api.create("configmaps", config_map(f"c{number}"))
        first = await api.list("configmaps", limit=2)
        token = {"continue": first["metadata"]["continue"]}
        await api.delete_collection("configmaps")
        once = await api.list("configmaps", limit=2, **token)
        await api.restart()
        assert await api.list("configmaps", limit=2, **token) == once
        rest = await api.list("configmaps", **{"continue": once["metadata"]["continue"]})
        assert names(first) + names(once) + names(rest) == [f"c{number}" for number in range(6)]


@everywhere
async def test_old_version_can_be_paged(opened: Opener) -> None:
    async with opened() as api:
        for number in range(5):
            await api.create("configmaps", config_map(f"c{number}", text="old"))
        before = await api.list("configmaps")
        version = before["metadata"]["resourceVersion"]
        await api.delete("configmaps", "c1")
        await api.replace("configmaps", config_map("c3", text="new"))
        await api.create("configmaps", config_map("c2a"))
        first = await api.list("configmaps", limit=2, resourceVersion=version)
        await api.delete_collection("configmaps")
        rest = await api.list("configmaps", limit=9, **{"continue": first["metadata"]["continue"]})
        assert first["items"] + rest["items"] == before["items"]
        assert first["metadata"]["remainingItemCount"] == 3
        assert rest["metadata"] == {"resourceVersion": version}


@generic
@pytest.mark.parametrize("seed", range(4))
async def test_random_writes_between_pages_are_not_visible(opened: Opener, seed: int) -> None:
    chance = random.Random(seed)
    async with opened() as api:
        spaces = ["cluster-public", "default"]
        live: set[tuple[str, str]] = set()

        async def write(_: int = 0) -> None:
            for _ in range(chance.randrange(6)):
                space, name = chance.choice(spaces), f"c{chance.randrange(12)}"
                body = {
                    **labelled(name, side=chance.choice(["left", "right"])),
                    "data": {"n": str(chance.random())},
                }
                if (space, name) not in live:
                    await api.create("configmaps", body, space)
                    live.add((space, name))
                elif chance.random() < 0.5:
                    await api.replace("configmaps", body, space)
                else:
                    await api.delete("configmaps", name, space)
                    live.remove((space, name))

        for _ in range(6):
            await write()
            query: dict[str, Any] = chance.choice([{}, {"labelSelector": "side=left"}])
            namespace = chance.choice([None, *spaces])
            before = await api.list("configmaps", namespace, **query)
            found = await pages(
                api, limit=chance.randrange(1, 6), between=write, namespace=namespace, **query
            )
            assert contents(found) == before["items"]
            assert {page["metadata"]["resourceVersion"] for page in found} == {
                before["metadata"]["resourceVersion"]
            }
