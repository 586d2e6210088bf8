"""A resumed watch gets ADDED and DELETED for objects that started or stopped matching in between."""

from __future__ import annotations

from tests.gateway.api import config_map, labelled, served
from tests.gateway.watch.watching import ports, transports, watching


@transports
async def test_resumed_watch_gets_missed_changes_of_its_selection(transport: str) -> None:
    async with served(**ports(transport)) as api:
        path = api.path("configmaps")
        at = (await api.create("configmaps", labelled("a", app="web")))["metadata"]["resourceVersion"]
        await api.create("configmaps", labelled("b", app="db"))
        await api.replace("configmaps", labelled("a", app="db"))
        await api.replace("configmaps", {**labelled("a", app="db"), "data": {"v": "unseen"}})
        await api.replace("configmaps", labelled("b", app="web"))
        await api.replace("configmaps", {**labelled("a", app="web"), "data": {"v": "unseen"}})
        await api.delete("configmaps", "b")
        async with watching(api, path, transport, labelSelector="app=web", resourceVersion=at) as watch:
            events = await watch.take(4)
            assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
                ("DELETED", "a"),
                ("ADDED", "b"),
                ("ADDED", "a"),
                ("DELETED", "b"),
            ]
            assert "data" not in events[0]["object"]
            assert events[2]["object"]["data"] == {"v": "unseen"}


async def test_object_that_matched_before_the_version_is_modified() -> None:
    async with served() as api:
        await api.create("configmaps", labelled("a", app="web"))
        at = await api.head()
        await api.create("configmaps", config_map("noise"))
        await api.replace("configmaps", {**labelled("a", app="web"), "data": {"v": "1"}})
        async with watching(
            api, api.path("configmaps"), labelSelector="app=web", resourceVersion=at
        ) as watch:
            assert await watch.types_and_names(1) == [("MODIFIED", "a")]
