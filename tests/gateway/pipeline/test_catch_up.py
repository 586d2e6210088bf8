"""Before rights or objects are read, a request waits for everything that other processes have shown to clients."""

from __future__ import annotations

from collections.abc import Awaitable

from rewound.actors.errors import Unreachable
from rewound.gateway.pipeline.context import RequestContext
from rewound.server.extensions import Extensions
from tests.gateway.api import Api, config_map, served

MAPS = "/api/v1/namespaces/default/configmaps"


class Others:
    """Other processes that have written an object which this one does not have yet."""

    def __init__(self) -> None:
        self.api: Api
        self.behind = False
        self.paths: list[str] = []
        self.failure: Exception | None = None

    def catch_up(self, context: RequestContext) -> Awaitable[None] | None:
        self.paths.append(context.request.path)
        return self._learn() if self.behind else None

    async def _learn(self) -> None:
        self.behind = False
        if self.failure is not None:
            raise self.failure
        await self.api.create("configmaps", config_map("a"))


async def test_request_waits_until_its_process_knows_what_others_know() -> None:
    others = Others()
    async with served(None, Extensions(catch_up=others.catch_up)) as others.api:
        api = others.api
        assert (await api.ask("GET", f"{MAPS}/a")).status == 404
        others.behind = True
        assert (await api.ask("GET", f"{MAPS}/a")).status == 200
        assert others.paths == [f"{MAPS}/a", f"{MAPS}/a", MAPS]


async def test_request_fails_if_its_process_cannot_know_what_others_know() -> None:
    others = Others()
    others.failure = Unreachable("the others are away")
    async with served(None, Extensions(catch_up=others.catch_up)) as others.api:
        others.behind = True
        refused = await others.api.ask("GET", f"{MAPS}/a")
        assert refused.status == 503 and "the others are away" in refused.text
