"""An object that starts to match is ADDED; one that stops is DELETED, as it last matched, at the new version."""

from __future__ import annotations

from tests.gateway.api import labelled, served
from tests.gateway.watch.watching import ports, transports, version, watching
from tests.settling import settled


@transports
async def test_changed_label_gives_added_and_deleted(transport: str) -> None:
    async with served(**ports(transport)) as api:
        await api.create("configmaps", labelled("in", app="web"))
        await api.create("configmaps", labelled("out", app="db"))
        path = api.path("configmaps")
        async with watching(api, path, transport, labelSelector="app=web") as watch:
            assert await watch.types_and_names(1) == [("ADDED", "in")]
            entered = await api.replace("configmaps", labelled("out", app="web"))
            [event] = await watch.take(1)
            assert event == {"type": "ADDED", "object": entered}
            left = await api.replace("configmaps", {**labelled("in", app="db"), "data": {"x": "new"}})
            [event] = await watch.take(1)
            assert event["type"] == "DELETED"
            assert event["object"]["metadata"]["labels"] == {"app": "web"}
            assert "data" not in event["object"]
            assert version(event) == int(left["metadata"]["resourceVersion"])
            await api.replace("configmaps", {**labelled("in", app="db"), "data": {"x": "newer"}})
            await api.delete("configmaps", "in")
            await api.delete("configmaps", "out")
            assert await watch.types_and_names(1) == [("DELETED", "out")]
            await settled()
            assert watch.untaken == []


async def test_negative_requirement_gives_added_and_deleted() -> None:
    async with served() as api, watching(api, api.path("configmaps"), labelSelector="!hidden") as watch:
        await api.create("configmaps", labelled("a", hidden="1"))
        await api.create("configmaps", labelled("b"))
        await api.replace("configmaps", labelled("b", hidden="1"))
        await api.replace("configmaps", labelled("a"))
        assert await watch.types_and_names(3) == [("ADDED", "b"), ("DELETED", "b"), ("ADDED", "a")]


async def test_equivalent_selectors_share_a_group() -> None:
    async with served() as api:
        path = api.path("configmaps")
        async with (
            watching(api, path, labelSelector="a=1,b") as one,
            watching(api, path, labelSelector="b, a in (1)") as other,
        ):
            await api.create("configmaps", labelled("x", a="1", b="2"))
            assert await one.take(1) == await other.take(1)


async def test_deletion_of_an_unselected_object_gives_no_event() -> None:
    async with served() as api:
        await api.create("configmaps", labelled("a", app="web"))
        at = await api.head()
        async with watching(
            api, api.path("configmaps"), labelSelector="app=web", resourceVersion=at
        ) as watch:
            await api.replace("configmaps", labelled("a"))
            await api.delete("configmaps", "a")
            await api.create("configmaps", labelled("a", app="web"))
            assert await watch.types_and_names(2) == [("DELETED", "a"), ("ADDED", "a")]
