"""Deleting objects that the system needs is refused."""

from __future__ import annotations

import pytest

from tests.gateway.api import served
from tests.gateway.shared_server import shared

CLASSES = "/apis/scheduling.cluster.io/v1/priorityclasses"


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
async def test_system_priority_classes_cannot_be_deleted(name: str) -> None:
    async with shared() as api:
        refusal = (await api.ask("DELETE", f"{CLASSES}/{name}")).expect(403)
        assert refusal["reason"] == "Forbidden" and refusal["message"] == (
            f'priorityclasses.scheduling.cluster.io "{name}" is forbidden: '
            "this is a system priority class and cannot be deleted"
        )
        assert (await api.ask("GET", f"{CLASSES}/{name}")).status == 200


async def test_other_priority_classes_can_be_deleted() -> None:
    async with served() as api:
        (await api.ask("POST", CLASSES, {"metadata": {"name": "mine"}, "value": 1})).expect(201)
        (await api.ask("DELETE", f"{CLASSES}/mine")).expect(200)
