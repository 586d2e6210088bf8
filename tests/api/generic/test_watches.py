"""Watches with selectors, bookmarks and versions, for a built-in and a custom kind."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.api.generic.kinds import MERGE, META, Opened, both
from tests.gateway.api import Api, Opener, served
from tests.gateway.custom_api import served_custom
from tests.gateway.watch.watching import watching
from tests.settling import advance


@both
async def test_watch_gets_every_change_after_its_version(opened: Opened) -> None:
    async with opened() as kind:
        version = (await kind.create("before"))["metadata"]["resourceVersion"]
        async with watching(kind.api, kind.path(), resourceVersion=version) as watch:
            made = await kind.create("a", k="1")
            changed = (await kind.ask("PATCH", "a", {"data": {"k": "2"}}, headers=MERGE)).expect(200)
            (await kind.ask("DELETE", "a")).expect(200)
            events = await watch.take(3)
        assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
        assert [event["object"] for event in events[:2]] == [made, changed]
        assert events[2]["object"]["data"] == {"k": "2"}
        assert int(events[2]["object"]["metadata"]["resourceVersion"]) > int(
            changed["metadata"]["resourceVersion"]
        )


@both
async def test_watch_without_a_version_begins_with_the_objects_that_exist(opened: Opened) -> None:
    async with opened() as kind:
        await kind.create("a")
        await kind.create("b")
        async with watching(kind.api, kind.path()) as watch:
            assert await watch.types_and_names(2) == [("ADDED", "a"), ("ADDED", "b")]


@both
async def test_object_enters_and_leaves_the_selection_of_a_watch(opened: Opened) -> None:
    async with opened() as kind:
        version = (await kind.list())["metadata"]["resourceVersion"]
        async with watching(
            kind.api, kind.path(), labelSelector="color=red", resourceVersion=version
        ) as watch:
            await kind.create("a", metadata={"labels": {"color": "blue"}})
            for color in ("red", "blue"):
                labels = {"metadata": {"labels": {"color": color}}}
                (await kind.ask("PATCH", "a", labels, headers=MERGE)).expect(200)
            await kind.create("b", metadata={"labels": {"color": "red"}})
            assert await watch.types_and_names(3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]
        async with watching(
            kind.api, kind.path(), fieldSelector="metadata.name=b", resourceVersion=version
        ) as watch:
            assert await watch.types_and_names(1) == [("ADDED", "b")]


@pytest.mark.parametrize(
    ("opened", "kind"),
    [
        pytest.param(served, ("v1", "ConfigMap"), id="configmaps"),
        pytest.param(served_custom, ("example.com/v1", "Widget"), id="widgets.example.com"),
    ],
)
async def test_watch_ends_with_a_bookmark_of_the_kind(
    opened: Opener, kind: tuple[str, str], mock_clock: MockClock
) -> None:
    async with opened() as api:
        assert isinstance(api, Api)
        path, at = api.path("configmaps"), await api.head()
        query = {"resourceVersion": at, "allowWatchBookmarks": "true", "timeoutSeconds": "5"}
        async with watching(api, path, **query) as watch:
            await api.create("namespaces", {"metadata": {"name": "another"}})
            await advance(mock_clock, 6)
            [mark] = await watch.end()
        assert mark["type"] == "BOOKMARK"
        assert (mark["object"]["apiVersion"], mark["object"]["kind"]) == kind
        assert int(mark["object"]["metadata"]["resourceVersion"]) > int(at)


@both
async def test_watch_of_partial_metadata_and_tables(opened: Opened) -> None:
    async with opened() as kind:
        await kind.create("a", k="v")
        for form in ("PartialObjectMetadata", "Table"):
            headers = {"accept": f"application/json;as={form};v=v1;g={META}"}
            async with watching(kind.api, kind.path(), headers=headers) as watch:
                [event] = await watch.take(1)
            assert (event["type"], event["object"]["kind"]) == ("ADDED", form)
            assert "data" not in event["object"]


@both
async def test_watch_with_an_invalid_version_is_refused(opened: Opened) -> None:
    async with opened() as kind:
        refused = (await kind.ask("GET", watch="1", resourceVersion="x")).expect(400)
        assert refused["reason"] == "BadRequest"
        match = (await kind.ask("GET", watch="1", resourceVersionMatch="Exact")).expect(422)
        assert match["details"]["causes"][0]["field"] == "resourceVersionMatch"
