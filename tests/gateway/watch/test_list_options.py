"""Options of lists on a watch: a limit is ignored, resourceVersionMatch is refused."""

from __future__ import annotations

import pytest

from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import watching


@pytest.mark.parametrize("limit", ["1", "0", "-1"])
async def test_a_limit_does_not_shorten_a_watch(limit: str) -> None:
    async with served() as api:
        for name in "ab":
            await api.create("configmaps", config_map(name))
        async with watching(api, api.path("configmaps"), limit=limit) as watch:
            await api.create("configmaps", config_map("c"))
            assert await watch.told(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


@pytest.mark.parametrize("match", ["Exact", "NotOlderThan", "Other"])
@pytest.mark.parametrize("version", [None, "0", "1"])
async def test_a_match_is_refused(match: str, version: str | None) -> None:
    async with served() as api:
        query = {"resourceVersionMatch": match, **({"resourceVersion": version} if version else {})}
        status = (await api.ask("GET", api.path("configmaps"), watch=1, **query)).expect(422)
        messages = [cause["message"] for cause in status["details"]["causes"]]
        assert "Forbidden: resourceVersionMatch is forbidden for watch" in messages


@pytest.mark.parametrize("value", ["0", "false", "False"])
async def test_watch_can_be_turned_off(value: str) -> None:
    async with served() as api:
        answer = await api.ask("GET", api.path("configmaps"), watch=value)
        assert answer.expect(200)["kind"] == "ConfigMapList"


async def test_a_watch_comes_as_json_or_not_at_all() -> None:
    async with served() as api:
        answer = await api.ask("GET", api.path("configmaps"), watch=1, headers={"accept": "application/yaml"})
        assert answer.status == 406


async def test_head_of_a_watch_gets_405_and_opens_no_stream() -> None:
    async with served() as api:
        answer = await api.ask("HEAD", api.path("configmaps"), watch=1)
        assert (answer.status, answer.body) == (405, b"")
