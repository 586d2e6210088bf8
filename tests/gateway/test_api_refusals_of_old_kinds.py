"""Kinds that were born in another group are refused under its name, as they always were."""

from __future__ import annotations

import pytest

from tests.gateway.api import served

POLICY = {"metadata": {"name": "a"}, "spec": {"podSelector": {"matchLabels": {"a": "no good!"}}}}


@pytest.mark.parametrize(
    ("plural", "kind", "body"),
    [("ingresses", "Ingress", {"metadata": {"name": "a"}}), ("networkpolicies", "NetworkPolicy", POLICY)],
)
async def test_the_first_home_is_named(plural: str, kind: str, body: dict[str, object]) -> None:
    async with served() as api:
        status = (await api.ask("POST", api.path(plural), body)).expect(422)
        assert status["message"].startswith(f'{kind}.extensions "a" is invalid: ')
        assert status["details"]["group"] == "extensions"


async def test_but_not_where_an_object_is_missing() -> None:
    async with served() as api:
        status = (await api.ask("GET", api.path("ingresses", name="a"))).expect(404)
        assert status["details"]["group"] == "networking.cluster.io"
