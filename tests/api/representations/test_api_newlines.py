"""Compact JSON documents end with a newline, as Go's encoder writes them; each watch event is one line."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.gateway.api import ApiResponse, config_map, served
from tests.settling import advance

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.cluster.io;v=v1"
PARTIAL = TABLE.replace("Table", "PartialObjectMetadata")
PARTIALS = TABLE.replace("Table", "PartialObjectMetadataList")


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        (f"{MAPS}/a", "*/*"),
        (f"{MAPS}/a", TABLE),
        (f"{MAPS}/a", PARTIAL),
        (MAPS, "*/*"),
        (MAPS, TABLE),
        (MAPS, PARTIALS),
        ("/api/v1/namespaces/default/secrets", "*/*"),  # an empty list
        (f"{MAPS}/missing", "*/*"),
        ("/api", "*/*"),
        ("/api/v1", "*/*"),
        ("/apis", "*/*"),
        ("/apis", "application/json;as=APIGroupDiscoveryList;g=apidiscovery.cluster.io;v=v2beta1"),
    ],
)
async def test_compact_documents_end_with_a_newline(path: str, accept: str) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        response = await api.ask("GET", path, headers={"accept": accept})
        assert response.body.endswith(b"}\n")
        assert response.body.count(b"\n") == 1
        assert response.headers["content-length"] == str(len(response.body))


async def test_responses_to_writes_end_with_a_newline() -> None:
    async with served() as api:
        made = await api.ask("POST", MAPS, config_map("a"))
        gone = await api.ask("DELETE", f"{MAPS}/a")
        broken = await api.ask("FOO", MAPS)
        for response in (made, gone, broken):
            assert response.body.endswith(b"}\n")
            assert response.body.count(b"\n") == 1


async def test_indented_documents_and_yaml_end_as_in_go() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        indented = await api.ask("GET", f"{MAPS}/a", pretty="true")
        assert indented.body.endswith(b"\n}")
        yaml = await api.ask("GET", f"{MAPS}/a", headers={"accept": "application/yaml"})
        assert yaml.body.endswith(b"\n")
        assert not yaml.body.endswith(b"\n\n")


@pytest.mark.parametrize("include", ["Object", "Metadata"])
async def test_watch_events_are_one_line_each(include: str, mock_clock: MockClock) -> None:
    responses: list[ApiResponse] = []

    async def watch(accept: str) -> None:
        query = {"watch": 1, "timeoutSeconds": 1, "includeObject": include}
        responses.append(await api.ask("GET", MAPS, headers={"accept": accept}, **query))

    async with served() as api:
        await api.create("configmaps", config_map("a"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, TABLE)
            nursery.start_soon(watch, "application/json")
            for _ in range(3):
                await advance(mock_clock, 1)
        for response in responses:
            [event, rest] = response.body.split(b"\n")
            assert event
            assert not rest
