"""generateName when the generated name exists: refused, or since 1.31 replaced by another."""

from __future__ import annotations

from random import Random
from typing import Any

from rewound.server.extensions import Extensions
from tests.gateway.api import served

GENERATED = {"metadata": {"generateName": "a-"}}


class SameLetters(Random):
    """Every suffix that the server makes for a command is the same."""

    def choices(self, population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> Any:
        return [population[0]] * k


async def test_generated_name_that_exists_is_replaced_since_1_31() -> None:
    extensions = Extensions(random=SameLetters(1))
    async with served(extensions=extensions, dialect="kubernetes", kubernetes_version="1.36") as api:
        made = [await api.create("configmaps", GENERATED) for _ in range(4)]
        names = [one["metadata"]["name"] for one in made]
        assert names[0] == "a-bbbbb"
        assert len(set(names)) == len(names)
        assert all(name.startswith("a-") and len(name) == 7 for name in names)
        given = await api.ask("POST", api.path("configmaps"), {"metadata": {"name": names[0]}})
        assert given.status == 409


async def test_generated_name_of_an_object_that_plugins_change_is_replaced_too() -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    extensions = Extensions(random=SameLetters(1))
    async with served(extensions=extensions, dialect="kubernetes", kubernetes_version="1.36") as api:
        await api.create("serviceaccounts", {"metadata": {"name": "mine"}})
        pod = {**GENERATED, "spec": {**spec, "serviceAccountName": "mine"}}
        names = {(await api.create("pods", pod))["metadata"]["name"] for _ in range(3)}
        assert len(names) == 3


async def test_generated_name_that_exists_is_refused_before_1_31() -> None:
    extensions = Extensions(random=SameLetters(1))
    async with served(extensions=extensions, dialect="kubernetes", kubernetes_version="1.30") as api:
        await api.create("configmaps", GENERATED)
        refused = (await api.ask("POST", api.path("configmaps"), GENERATED)).expect(409)
        assert "not able to generate a unique name" in refused["message"]
