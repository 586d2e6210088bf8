"""Stale reads: served from an older version, and only where resourceVersion allows it."""

from __future__ import annotations

import pytest

from tests.actors.object_store import WATCH_HISTORY
from tests.gateway.api import Api, config_map, names
from tests.gateway.watch.watching import watching
from tests.testing.faults.injecting import PATH, injecting, on_config_maps

STALE = on_config_maps({"stale": {"versions": 2}}, name="stale")


async def written(api: Api) -> list[str]:
    """The versions of an object that has the texts 0, 1, 2, 3."""
    created = await api.create("configmaps", config_map("a", text="0"))
    others = [await api.replace("configmaps", config_map("a", text=str(number))) for number in (1, 2, 3)]
    return [one["metadata"]["resourceVersion"] for one in (created, *others)]


async def test_any_version_may_be_older_than_one_that_was_seen() -> None:
    async with injecting(STALE) as api:
        versions = await written(api)
        got = await api.ask("GET", f"{PATH}/a", resourceVersion=0)
        assert (got.document["data"], got.headers["rewound-fault"]) == ({"text": "1"}, "stale")
        listed = await api.list("configmaps", resourceVersion=0)
        assert listed["metadata"]["resourceVersion"] == versions[1]
        assert listed["items"][0]["data"] == {"text": "1"}


async def test_client_that_lists_an_old_version_watches_from_there() -> None:
    async with injecting(STALE) as api:
        await written(api)
        version = (await api.list("configmaps", resourceVersion=0))["metadata"]["resourceVersion"]
        async with watching(api, PATH, resourceVersion=version) as watch:
            assert [one["object"]["data"]["text"] for one in await watch.take(2)] == ["2", "3"]


async def test_watch_from_any_version_begins_with_an_old_state() -> None:
    async with injecting(STALE) as api:
        await written(api)
        async with watching(api, PATH, resourceVersion=0) as watch:
            events = await watch.take(3)
            assert [(one["type"], one["object"]["data"]["text"]) for one in events] == [
                ("ADDED", "1"),
                ("MODIFIED", "2"),
                ("MODIFIED", "3"),
            ]
        async with watching(api, PATH) as watch:
            assert [one["object"]["data"]["text"] for one in await watch.take(1)] == ["3"]


async def test_not_older_than_the_version_that_was_given() -> None:
    async with injecting(STALE) as api:
        versions = await written(api)
        for query in (
            {},
            {"resourceVersionMatch": "NotOlderThan"},
            {"resourceVersionMatch": "NotOlderThan", "limit": 5},
        ):
            for asked, expected in ((0, 1), (1, 1), (2, 2), (3, 3)):
                listed = await api.list("configmaps", resourceVersion=versions[asked], **query)
                assert listed["metadata"]["resourceVersion"] == versions[expected]
        assert (await api.get("configmaps", "a", resourceVersion=versions[2]))["data"] == {"text": "2"}


async def test_most_recent_and_exact_reads_are_never_stale() -> None:
    async with injecting(STALE) as api:
        versions = await written(api)
        assert (await api.get("configmaps", "a"))["data"] == {"text": "3"}
        assert (await api.list("configmaps"))["metadata"]["resourceVersion"] == versions[3]
        for query in ({"resourceVersionMatch": "Exact"}, {"limit": 5}):
            listed = await api.list("configmaps", resourceVersion=versions[0], **query)
            assert listed["metadata"]["resourceVersion"] == versions[0]
        assert (await api.ask("GET", f"{PATH}/a", resourceVersion="x")).status == 400


async def test_pages_of_a_stale_list_have_one_version() -> None:
    async with injecting(STALE) as api:
        await api.create("configmaps", config_map("a"))
        await api.create("configmaps", config_map("b"))
        await api.create("configmaps", config_map("c"))
        version = await api.head()
        await api.delete("configmaps", "a")
        await api.delete("configmaps", "b")
        first = await api.list("configmaps", resourceVersion=0, limit=2)
        assert (names(first), first["metadata"]["resourceVersion"]) == (["a", "b"], version)
        rest = await api.list("configmaps", **{"limit": 2, "continue": first["metadata"]["continue"]})
        assert (names(rest), rest["metadata"]["resourceVersion"]) == (["c"], version)


async def test_object_that_did_not_exist_then_is_not_found() -> None:
    async with injecting(STALE) as api:
        await api.create("configmaps", config_map("a"))
        assert (await api.ask("GET", f"{PATH}/a", resourceVersion=0)).status == 404


async def test_stale_reads_can_be_seconds_old() -> None:
    async with injecting(on_config_maps({"stale": {"seconds": 30}})) as api:
        for text in ("0", "1", "2"):
            if text == "0":
                await api.create("configmaps", config_map("a", text=text))
            else:
                await api.replace("configmaps", config_map("a", text=text))
            api.clock.advance(20)
        assert (await api.get("configmaps", "a", resourceVersion=0))["data"] == {"text": "1"}


@pytest.mark.parametrize("fault", [{"versions": 1000}, {"seconds": 10 * WATCH_HISTORY}])
async def test_never_older_than_the_watch_history(fault: dict[str, int]) -> None:
    async with injecting(on_config_maps({"stale": fault})) as api:
        await written(api)
        api.clock.advance(WATCH_HISTORY + 60)
        floor = await api.head()
        await api.replace("configmaps", config_map("a", text="4"))
        listed = await api.list("configmaps", resourceVersion=0)
        assert listed["metadata"]["resourceVersion"] == floor
        assert listed["items"][0]["data"] == {"text": "3"}


async def test_stale_reads_need_no_right_to_history() -> None:
    """Reading an old version of a Secret with `?at=` needs an extra verb; a stale read is an ordinary read."""
    rule = {"match": {"resources": ["secrets"]}, "fault": {"stale": {"versions": 1}}}
    async with injecting(rule) as api:
        await api.create("secrets", {"metadata": {"name": "a"}, "stringData": {"a": "old"}})
        await api.replace("secrets", {"metadata": {"name": "a"}, "stringData": {"a": "new"}})
        assert (await api.get("secrets", "a", resourceVersion=0))["data"] == {"a": "b2xk"}
