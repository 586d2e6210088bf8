"""Kinds that moved from another group are refused under their first group's name, as in Kubernetes."""

from __future__ import annotations

import pytest

from tests.gateway.api import served
from tests.gateway.shared_server import shared

POLICY = {"metadata": {"name": "a"}, "spec": {"podSelector": {"matchLabels": {"a": "no good!"}}}}


@pytest.mark.parametrize(
    ("plural", "kind", "body"),
    [("ingresses", "Ingress", {"metadata": {"name": "a"}}), ("networkpolicies", "NetworkPolicy", POLICY)],
)
async def test_refusal_names_the_first_group(plural: str, kind: str, body: dict[str, object]) -> None:
    async with served() as api:
        status = (await api.ask("POST", api.path(plural), body)).expect(422)
        assert status["message"].startswith(f'{kind}.extensions "a" is invalid: ')
        assert status["details"]["group"] == "extensions"


async def test_not_found_names_the_current_group() -> None:
    async with shared() as api:
        status = (await api.ask("GET", api.path("ingresses", name="a"))).expect(404)
        assert status["details"]["group"] == "networking.cluster.io"
