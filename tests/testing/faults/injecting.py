"""A server with test controls, and a client for its fault rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.actors.object_store import Document
from tests.gateway.api import Api, served

FAULTS = "/debug/rewound/faults"
PATH = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def injecting(*rules: Document, seed: int = 0, **changed: Any) -> AsyncIterator[Api]:
    async with served(enable_test_controls=True, **changed) as api:
        await set_faults(api, *rules, seed=seed)
        yield api


async def set_faults(api: Api, *rules: Document, seed: int = 0) -> Document:
    return (await api.ask("POST", FAULTS, {"seed": seed, "rules": list(rules)})).expect(200)


def on_config_maps(fault: Document, **more: Any) -> Document:
    return {"match": {"resources": ["configmaps"]}, "fault": fault, **more}
