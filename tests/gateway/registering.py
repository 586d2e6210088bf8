"""Runs a server and gives access to its registry, for tests that register and remove kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rewound.actors.kinds.registry import Registry
from rewound.server import open_store
from tests.gateway.api import Api, served


@asynccontextmanager
async def registering(**changed: Any) -> AsyncIterator[tuple[Api, Registry]]:
    """Run a server with these settings."""
    made: list[Registry] = []

    class Recorded(Registry):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_store, "Registry", Recorded)
        async with served(**changed) as api:
            yield api, made[-1]
