"""remainingItemCount is exact on every page, and absent on the last page or with a selector."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.object_store import Verbs
from tests.gateway.api import Opener, config_map, everywhere, labelled, names


async def fill(api: Verbs, count: int, namespace: str = "default") -> None:
    for number in range(count):
        await api.create("configmaps", labelled(f"c{number}", even=str(number % 2 == 0)), namespace)


async def shapes(
    api: Verbs, limits: list[int], namespace: str | None = "default", **query: Any
) -> list[tuple[int, int | None, bool]]:
    """For each page: number of items, remainingItemCount, and whether there is a continue token."""
    found = []
    more: dict[str, str] = {}
    for limit in limits:
        page = await api.list("configmaps", namespace, limit=limit, **more, **query)
        metadata = page["metadata"]
        found.append((len(page["items"]), metadata.get("remainingItemCount"), "continue" in metadata))
        if "continue" not in metadata:
            break
        more = {"continue": metadata["continue"]}
    return found


@everywhere
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([2, 2, 2], [(2, 3, True), (2, 1, True), (1, None, False)]),
        ([1, 3, 1], [(1, 4, True), (3, 1, True), (1, None, False)]),
        ([4, 0], [(4, 1, True), (1, None, False)]),
        ([5], [(5, None, False)]),
        ([6], [(5, None, False)]),
        ([0], [(5, None, False)]),
        ([-1], [(5, None, False)]),
        ([1 << 62], [(5, None, False)]),
    ],
)
async def test_remaining_count_is_exact_on_every_page(
    opened: Opener, limits: list[int], expected: list[tuple[Any, ...]]
) -> None:
    async with opened() as api:
        await fill(api, 5)
        assert await shapes(api, limits) == expected


@everywhere
async def test_writes_between_pages_do_not_change_the_count(opened: Opener) -> None:
    async with opened() as api:
        await fill(api, 5)
        first = await api.list("configmaps", limit=2)
        await api.delete_collection("configmaps")
        second = await api.list("configmaps", limit=2, **{"continue": first["metadata"]["continue"]})
        assert second["metadata"]["remainingItemCount"] == 1


@everywhere
async def test_count_is_limited_to_the_namespace(opened: Opener) -> None:
    async with opened() as api:
        await fill(api, 3)
        await fill(api, 4, "cluster-public")
        assert await shapes(api, [2], "default") == [(2, 1, True)]
        assert await shapes(api, [2], "cluster-public") == [(2, 2, True)]
        assert await shapes(api, [2, 2], None) == [(2, 5, True), (2, 3, True)]


@everywhere
@pytest.mark.parametrize(
    "selector",
    [{"labelSelector": "even=True"}, {"fieldSelector": "metadata.name!=c9"}, {"labelSelector": "even"}],
)
async def test_count_is_absent_with_a_selector(opened: Opener, selector: dict[str, str]) -> None:
    async with opened() as api:
        await fill(api, 6)
        assert (await shapes(api, [2, 9], **selector))[0] == (2, None, True)


@everywhere
async def test_selector_on_a_later_page_removes_the_count(opened: Opener) -> None:
    async with opened() as api:
        await fill(api, 6)
        first = await api.list("configmaps", limit=1)
        token = first["metadata"]["continue"]
        second = await api.list("configmaps", limit=1, labelSelector="even=True", **{"continue": token})
        assert names(second) == ["c2"]
        assert "remainingItemCount" not in second["metadata"]


@everywhere
async def test_last_match_on_a_full_page_ends_the_list(opened: Opener) -> None:
    async with opened() as api:
        await fill(api, 6)
        found = await shapes(api, [3], labelSelector="even=True")
        assert found == [(3, None, False)]
        found = await shapes(api, [1, 1, 1], labelSelector="even=True")
        assert found == [(1, None, True), (1, None, True), (1, None, False)]


@everywhere
async def test_selector_without_matches_gives_an_empty_list(opened: Opener) -> None:
    async with opened() as api:
        await fill(api, 2)
        listed = await api.list("configmaps", limit=1, labelSelector="even=maybe")
        assert (listed["items"], set(listed["metadata"])) == ([], {"resourceVersion"})


@everywhere
async def test_empty_collection_has_no_count(opened: Opener) -> None:
    async with opened() as api:
        for namespace in ("default", "missing", None):
            listed = await api.list("configmaps", namespace, limit=1)
            assert (listed["items"], set(listed["metadata"])) == ([], {"resourceVersion"})


@everywhere
async def test_pages_of_a_long_list_are_the_whole_list(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewound.actors.store.reads.BATCH_ROWS", 2)
    async with opened() as api:
        await fill(api, 7)
        assert names(await api.list("configmaps")) == [f"c{number}" for number in range(7)]
        assert await shapes(api, [5, 5]) == [(5, 2, True), (2, None, False)]
        assert await shapes(api, [3, 3], labelSelector="even=True") == [(3, None, True), (1, None, False)]
        assert names(await api.list("configmaps", labelSelector="even=False")) == ["c1", "c3", "c5"]


@everywhere
async def test_items_are_in_byte_order(opened: Opener) -> None:
    async with opened() as api:
        for name in ("9", "10", "a.b", "a-b", "a"):
            await api.create("configmaps", config_map(name))
        in_order = ["10", "9", "a", "a-b", "a.b"]
        assert names(await api.list("configmaps")) == in_order
        assert await shapes(api, [1] * 5) == [(1, 4 - n or None, n < 4) for n in range(5)]
