"""A body that takes long to read holds up nobody else."""

from __future__ import annotations

import pytest
import trio

from tests.gateway.api import config_map, served

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MANY = b'{"metadata":{"name":"p"},"spec":{"containers":[' + b"{}," * 40_000 + b"{}]}}"
YAML = b"metadata: {name: p}\nspec:\n  containers:\n" + b"  - {}\n" * 20_000


@pytest.mark.parametrize(
    ("body", "media"), [(MANY, "application/json"), (YAML, "application/yaml")], ids=["json", "yaml"]
)
async def test_others_are_served_meanwhile(body: bytes, media: str) -> None:
    async with served() as api:
        answered: list[int] = []
        meanwhile = 0

        async def ask() -> None:
            answer = await api.ask("POST", PODS, body, headers={"content-type": media})
            answered.append(answer.status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not answered:
                assert (await api.ask("GET", "/version")).status == 200
                meanwhile += not answered
        assert answered == [422]
        assert meanwhile > 5


async def test_a_large_object_is_read_as_a_small_one_is() -> None:
    async with served() as api:
        stored = await api.create("configmaps", {**config_map("large"), "data": {"k": "x" * 500_000}})
        assert stored["data"] == {"k": "x" * 500_000}
        odd = {**config_map("odd"), "data": {"k": "x" * 100_000}, "dat": 1}
        refused = await api.ask("POST", CONFIG_MAPS, odd, fieldValidation="Strict")
        assert refused.status == 400
        assert 'unknown field \\"dat\\"' in refused.text
