"""Options of lists on a watch: a limit is ignored, resourceVersionMatch is refused."""

from __future__ import annotations

import pytest

from tests.cases import cases
from tests.gateway.api import config_map, served
from tests.gateway.shared_server import shared
from tests.gateway.watch.watching import watching


@pytest.mark.parametrize("limit", ["1", "0", "-1"])
async def test_limit_is_ignored_on_a_watch(limit: str) -> None:
    async with served() as api:
        for name in "ab":
            await api.create("configmaps", config_map(name))
        async with watching(api, api.path("configmaps"), limit=limit) as watch:
            await api.create("configmaps", config_map("c"))
            assert await watch.types_and_names(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


@cases("match", ["Exact", "NotOlderThan", "Other"])
@cases("version", [None, "0", "1"])
async def test_resource_version_match_is_refused_on_a_watch(match: str, version: str | None) -> None:
    async with shared() as api:
        query = {"resourceVersionMatch": match, **({"resourceVersion": version} if version else {})}
        status = (await api.ask("GET", api.path("configmaps"), watch=1, **query)).expect(422)
        messages = [cause["message"] for cause in status["details"]["causes"]]
        assert "Forbidden: resourceVersionMatch is forbidden for watch" in messages


@cases("value", ["0", "false", "False"])
async def test_false_values_of_watch_give_a_list(value: str) -> None:
    async with shared() as api:
        response = await api.ask("GET", api.path("configmaps"), watch=value)
        assert response.expect(200)["kind"] == "ConfigMapList"


async def test_watch_in_yaml_gets_406() -> None:
    async with shared() as api:
        response = await api.ask(
            "GET", api.path("configmaps"), watch=1, headers={"accept": "application/yaml"}
        )
        assert response.status == 406


async def test_head_of_a_watch_gets_405_and_opens_no_stream() -> None:
    async with shared() as api:
        response = await api.ask("HEAD", api.path("configmaps"), watch=1)
        assert (response.status, response.body) == (405, b"")
