"""A body that takes long to decode delays no other request."""

from __future__ import annotations

import pytest
import trio

from tests.gateway.api import config_map, served

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MANY = b'{"metadata":{"name":"p"},"spec":{"containers":[' + b"{}," * 30_000 + b"{}]}}"
YAML = b"metadata: {name: p}\nspec:\n  containers:\n" + b"  - {}\n" * 20_000


@pytest.mark.parametrize(
    ("body", "media"), [(MANY, "application/json"), (YAML, "application/yaml")], ids=["json", "yaml"]
)
async def test_large_body_does_not_delay_other_requests(body: bytes, media: str) -> None:
    async with served() as api:
        statuses: list[int] = []
        others = 0

        async def post() -> None:
            response = await api.ask("POST", PODS, body, headers={"content-type": media})
            statuses.append(response.status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(post)
            while not statuses:
                assert (await api.ask("GET", "/version")).status == 200
                others += not statuses
        assert statuses == [422]
        assert others > 5


async def test_large_object_is_validated_like_a_small_one() -> None:
    async with served() as api:
        stored = await api.create("configmaps", {**config_map("large"), "data": {"k": "x" * 500_000}})
        assert stored["data"] == {"k": "x" * 500_000}
        odd = {**config_map("odd"), "data": {"k": "x" * 100_000}, "dat": 1}
        refused = await api.ask("POST", CONFIG_MAPS, odd, fieldValidation="Strict")
        assert refused.status == 400
        assert 'unknown field \\"dat\\"' in refused.text
