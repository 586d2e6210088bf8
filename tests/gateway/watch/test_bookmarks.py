"""Bookmarks: only on request, with nothing but a version, and never ahead of the events sent."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rewound.gateway.watch.group import BOOKMARK_INTERVAL
from tests.gateway.api import Api, config_map, labelled, served
from tests.gateway.watch.watching import (
    Watch,
    ports,
    stalling_plain_transports,
    transports,
    version,
    versions,
    watching,
)
from tests.settling import advance, settled

ASKED = {"allowWatchBookmarks": "true"}


def bookmarks(watch: Watch) -> list[int]:
    return [version(event) for event in watch.events if event["type"] == "BOOKMARK"]


@transports
async def test_last_bookmark_precedes_the_timeout(transport: str, mock_clock: MockClock) -> None:
    async with served(**ports(transport)) as api:
        path, at = api.path("configmaps"), await api.head()
        async with watching(api, path, transport, resourceVersion=at, timeoutSeconds=5, **ASKED) as watch:
            await api.create("configmaps", config_map("a"))
            await api.create("leases", {"metadata": {"name": "l"}})
            await advance(mock_clock, 6)
            event, mark = await watch.end()
            assert event["type"] == "ADDED"
            assert mark == {
                "type": "BOOKMARK",
                "object": {
                    "kind": "ConfigMap",
                    "apiVersion": "v1",
                    "metadata": {"resourceVersion": await api.head()},
                },
            }


async def test_watch_gets_no_bookmark_unless_requested(mock_clock: MockClock) -> None:
    async with (
        served() as api,
        watching(api, api.path("configmaps"), timeoutSeconds=200) as watch,
        watching(api, api.path("configmaps"), timeoutSeconds=200, allowWatchBookmarks="false") as other,
    ):
        await api.create("configmaps", config_map("a"))
        for _ in range(5):
            await advance(mock_clock, BOOKMARK_INTERVAL)
        assert [event["type"] for event in await watch.end()] == ["ADDED"]
        assert [event["type"] for event in await other.end()] == ["ADDED"]


async def test_idle_watch_gets_bookmark_every_interval(mock_clock: MockClock) -> None:
    async with served() as api, watching(api, api.path("configmaps"), **ASKED) as watch:
        marks = []
        for number in range(4):
            await advance(mock_clock, BOOKMARK_INTERVAL)
            marks.append(int(await api.head()))
            # Writes of other types advance the version: the bookmark must stay within the watch history.
            await api.create("leases", {"metadata": {"name": f"l-{number}"}})
        assert bookmarks(watch) == marks
        assert len(watch.events) == 4


async def test_change_outside_the_selector_advances_the_bookmark(mock_clock: MockClock) -> None:
    async with (
        served() as api,
        watching(api, api.path("configmaps"), labelSelector="app=web", timeoutSeconds=5, **ASKED) as watch,
    ):
        made = await api.create("configmaps", labelled("a", app="db"))
        await advance(mock_clock, 6)
        assert versions(await watch.end()) == [int(made["metadata"]["resourceVersion"])]


@transports
async def test_bookmarks_under_load_are_never_ahead_of_events(transport: str, mock_clock: MockClock) -> None:
    async with served(**ports(transport)) as api:
        at = await api.head()
        query = {"resourceVersion": at, "timeoutSeconds": 500, **ASKED}
        async with watching(api, api.path("configmaps"), transport, **query) as watch:
            for number in range(60):
                await api.create("configmaps", config_map(f"c-{number:02}"))
                mock_clock.jump(BOOKMARK_INTERVAL / 8)
            await advance(mock_clock, 500)
            events = await watch.end()
            assert len(bookmarks(watch)) >= 6
            found = versions(events)
            assert found == sorted(found)
            await assert_resumable(api, watch)


async def assert_resumable(api: Api, watch: Watch) -> None:
    """A watch from a bookmark's version gets the event that followed the bookmark."""
    for mark in bookmarks(watch):
        later = [version(one) for one in watch.events if one["type"] != "BOOKMARK" and version(one) > mark]
        async with watching(api, api.path("configmaps"), resourceVersion=mark) as again:
            await settled()
            assert versions(again.events) == later


@stalling_plain_transports
async def test_lagging_watch_gets_bookmark_of_its_own_cursor(transport: str, mock_clock: MockClock) -> None:
    big = "x" * 100_000
    async with served() as api:
        at = await api.head()
        query = {"resourceVersion": at, "timeoutSeconds": 5, **ASKED}
        async with watching(api, api.path("configmaps"), transport, stalled=True, **query) as watch:
            await settled()
            for number in range(30):
                await api.create("configmaps", config_map(f"c-{number:02}", big=big))
            await advance(mock_clock, 6)
            watch.resume()  # type: ignore[attr-defined]
            *events, mark = await watch.end()
            assert mark["type"] == "BOOKMARK"
            assert 0 < len(events) < 30
            assert version(mark) == version(events[-1])


@pytest.mark.parametrize(
    ("value", "marks"), [("1", 1), ("true", 1), ("", 1), ("yes", 1), ("0", 0), ("false", 0)]
)
async def test_allow_watch_bookmarks_values(value: str, marks: int, mock_clock: MockClock) -> None:
    query = {"allowWatchBookmarks": value, "timeoutSeconds": 1}
    async with served() as api, watching(api, api.path("configmaps"), **query) as watch:
        await advance(mock_clock, 3)
        assert len(await watch.end()) == marks


async def test_bookmark_has_the_requested_representation(mock_clock: MockClock) -> None:
    accept = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.cluster.io;v=v1"}
    query = {"timeoutSeconds": 1, **ASKED}
    async with served() as api, watching(api, api.path("configmaps"), headers=accept, **query) as watch:
        await advance(mock_clock, 3)
        [mark] = await watch.end()
        assert mark["object"] == {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.cluster.io/v1",
            "metadata": {"resourceVersion": await api.head()},
        }
