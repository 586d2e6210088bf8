"""Watches as Table, with columns in the first event only, and as PartialObjectMetadata."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import ports, transports, watching
from tests.settling import advance, settled

TABLE = {"Accept": "application/json;as=Table;g=meta.cluster.io;v=v1"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.cluster.io;v=v1"}


@transports
async def test_table_has_columns_in_its_first_event_only(transport: str) -> None:
    async with served(**ports(transport)) as api:
        await api.create("configmaps", config_map("a"))
        path, at = api.path("configmaps"), await api.head()
        async with (
            watching(api, path, transport, headers=TABLE) as state,
            watching(api, path, transport, headers=TABLE, resourceVersion=at) as resumed,
        ):
            [first] = await state.take(1)
            assert first["object"]["kind"] == "Table"
            assert first["object"]["columnDefinitions"]
            await api.create("configmaps", config_map("b"))
            await api.delete("configmaps", "a")
            events = await state.take(2)
            assert [event["object"]["columnDefinitions"] for event in events] == [None, None]
            first, second = await resumed.take(2)
            assert first["object"]["columnDefinitions"]
            assert second["object"]["columnDefinitions"] is None
            assert [event["type"] for event in (first, second)] == ["ADDED", "DELETED"]
            [row] = second["object"]["rows"]
            assert row["cells"][0] == "a"


async def test_only_the_first_of_many_unread_events_has_columns() -> None:
    async with served() as api:
        path, at = api.path("configmaps"), await api.head()
        for number in range(20):
            await api.create("configmaps", config_map(f"c-{number:02}"))
        async with watching(api, path, headers=TABLE, resourceVersion=at) as watch:
            events = await watch.take(20)
            has_columns = [bool(event["object"]["columnDefinitions"]) for event in events]
            assert has_columns == [True] + [False] * 19
            await api.create("configmaps", config_map("z"))
            [event] = await watch.take(1)
            assert event["object"]["columnDefinitions"] is None


async def test_watch_as_a_list_of_metadata_sends_the_metadata_of_each_object() -> None:
    listed = {"Accept": PARTIAL["Accept"].replace("Metadata;", "MetadataList;")}
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        async with watching(api, api.path("configmaps"), headers=listed) as watch:
            await api.create("configmaps", config_map("b"))
            events = [event["object"] for event in await watch.take(2)]
    assert [(one["kind"], one["metadata"]["name"]) for one in events] == [
        ("PartialObjectMetadata", "a"),
        ("PartialObjectMetadata", "b"),
    ]
    assert "data" not in events[0]


async def test_watch_without_a_first_event_ends_on_time(mock_clock: MockClock) -> None:
    async with served() as api:
        at = await api.head()
        query = {"resourceVersion": at, "timeoutSeconds": 5, "allowWatchBookmarks": "true"}
        async with watching(api, api.path("configmaps"), headers=TABLE, **query) as watch:
            await advance(mock_clock, 6)
            [mark] = await watch.end()
            assert mark["object"] == {
                "kind": "Table",
                "apiVersion": "meta.cluster.io/v1",
                "metadata": {"resourceVersion": at},
            }


async def test_watch_without_a_first_event_may_disconnect() -> None:
    async with served() as api:
        at = await api.head()
        async with watching(api, api.path("configmaps"), headers=TABLE, resourceVersion=at):
            await settled()
        await settled()
        text = (await api.ask("GET", "/metrics")).text
        assert 'rewound_watch_groups{type="configmaps"} 0' in text


@pytest.mark.parametrize(
    ("include", "kind"), [("Object", "ConfigMap"), ("Metadata", "PartialObjectMetadata")]
)
async def test_include_object_selects_the_object_in_rows(include: str, kind: str) -> None:
    async with served() as api:
        path = api.path("configmaps")
        async with (
            watching(api, path, headers=TABLE, includeObject=include) as watch,
            watching(api, path, headers=TABLE, includeObject="None") as bare,
        ):
            await api.create("configmaps", config_map("a"))
            [event] = await watch.take(1)
            assert event["object"]["rows"][0]["object"]["kind"] == kind
            [event] = await bare.take(1)
            assert event["object"]["rows"][0]["object"] is None


@transports
async def test_watch_of_partial_object_metadata(transport: str) -> None:
    async with served(**ports(transport)) as api:
        path = api.path("configmaps")
        async with watching(api, path, transport, headers=PARTIAL) as watch:
            await api.create("configmaps", config_map("a", secret="hidden"))
            await api.delete("configmaps", "a")
            for event in await watch.take(2):
                assert set(event["object"]) == {"kind", "apiVersion", "metadata"}
                assert event["object"]["kind"] == "PartialObjectMetadata"
                assert event["object"]["metadata"]["name"] == "a"
