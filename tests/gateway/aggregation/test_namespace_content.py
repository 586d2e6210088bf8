"""Aggregated servers that respond badly while a namespace is deleted: each attempt ends soon and without an
exception.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.actors.aggregation.api_services import ApiService, parse_api_service
from rewound.actors.aggregation.content import RemoteContent, Undiscovered
from rewound.actors.identity import User
from rewound.actors.names import NAMES
from rewound.gateway.aggregation.content import SECONDS, NamespaceContent
from rewound.gateway.aggregation.servers import AggregatedServers, Fetched, FetchFailed
from tests.gateway.aggregation.aggregated import GROUP_VERSION, api_service

DEADLINE = "context deadline exceeded"
FORM = "the server's response has an unexpected form"
VERBS = ["list", "delete", "deletecollection"]

Respond = Callable[[str, str], Awaitable[Any]]


class Server:
    """Describes some resources; `respond` is called for everything else, and returns a document."""

    def __init__(self, resources: Any, respond: Respond) -> None:
        self._resources, self._respond = resources, respond

    async def fetch(
        self, one: ApiService, path: str, *, seconds: float, query: str, method: str, **_: Any
    ) -> Fetched:
        assert seconds > 0, "the time of the attempt is over"
        document = {"resources": self._resources}
        if path != GROUP_VERSION:
            with trio.move_on_after(seconds) as scope:
                document = await self._respond(method, query)
            if scope.cancelled_caught:
                raise FetchFailed(DEADLINE)
        return Fetched(200, b"", b"", orjson.dumps(document))


async def deleted(resources: Any, respond: Respond) -> RemoteContent:
    servers = cast(AggregatedServers, Server(resources, respond))
    one = parse_api_service(api_service(443))
    return await NamespaceContent(servers, NAMES["cluster"], one, "doomed", User("u")).delete()


def things(count: int) -> list[dict[str, Any]]:
    return [{"name": f"things{number}", "namespaced": True, "verbs": VERBS} for number in range(count)]


async def test_server_that_hangs_is_left_after_a_minute(autojump_clock: MockClock) -> None:
    async def hang(method: str, query: str) -> None:
        await trio.sleep_forever()

    began = trio.current_time()
    assert await deleted(things(10), hang) == RemoteContent({}, (DEADLINE,) * 10)
    assert trio.current_time() - began == SECONDS


async def test_list_that_never_ends_is_left_after_a_minute(autojump_clock: MockClock) -> None:
    async def respond(method: str, query: str) -> Any:
        await trio.sleep(1)
        return {"metadata": {"continue": "more"}, "items": [{"metadata": {"name": "a"}}]}

    began = trio.current_time()
    assert await deleted(things(1), respond) == RemoteContent({}, (DEADLINE,))
    assert trio.current_time() - began == SECONDS


@pytest.mark.parametrize(
    "listed", [[], {}, {"items": 1}, {"items": {}}, "items", {"metadata": {}}], ids=lambda one: str(one)
)
async def test_lists_of_another_form_are_failures(listed: Any) -> None:
    async def respond(method: str, query: str) -> Any:
        return listed

    assert await deleted(things(1), respond) == RemoteContent({}, (FORM,))


async def test_objects_of_another_form_remain() -> None:
    async def respond(method: str, query: str) -> Any:
        items = [1, {"metadata": "a"}, {"metadata": {"name": 2, "finalizers": "f"}}]
        return {"metadata": [], "items": items}

    assert await deleted(things(1), respond) == RemoteContent({"things0": [(), (), ()]})
    verbs: list[Any] = [1, "delete", {"delete": 1}, None]
    odd = [{**things(1)[0], "verbs": one} for one in verbs]
    assert await deleted(odd, respond) == RemoteContent({})


@pytest.mark.parametrize("resources", [1, {}, "things"], ids=str)
async def test_resources_of_another_form_are_not_discovered(resources: Any) -> None:
    async def respond(method: str, query: str) -> Any:
        raise AssertionError

    with pytest.raises(Undiscovered, match=FORM):
        await deleted(resources, respond)
