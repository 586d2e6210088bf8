"""A request that waits for an external service has no seat: the others of its level, with one seat, do not wait for
it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from rewound.actors.store import reads
from rewound.gateway.settings.access import AuthorizationSettings
from tests.api.custom.converting import converting
from tests.api.webhooks.hooking import hooking
from tests.gateway.aggregation.aggregated import GROUP_VERSION, aggregating, discovering, register
from tests.gateway.api import ALICE, Api, ApiResponse, config_map, served
from tests.gateway.outgoing.https_peer import Received, https_peer
from tests.gateway.proxy.backends import Call, serving

ONE_SEAT: dict[str, Any] = {"max_requests_inflight": 1, "max_mutating_requests_inflight": 0}
OPEN = {**ONE_SEAT, "authorization_mode": "AlwaysAllow", "anonymous_auth": False}
MAPS = "/api/v1/namespaces/default/configmaps"
LEVEL = "global-default"


@dataclass
class Answer:
    """An external response that arrives when `give` is called."""

    asked: int = 0
    given: trio.Event = field(default_factory=trio.Event)

    async def wait(self) -> None:
        self.asked += 1
        await self.given.wait()


@dataclass
class Waiting:
    api: Api
    ask: Callable[[int], Awaitable[ApiResponse]]  # sent as alice, with a number as name
    answer: Callable[[], Awaitable[None]]
    status: int


async def outside(api: Api) -> dict[str, float]:
    """How many requests of the level have seats, and how many wait for an external service."""
    names = {
        f"apiserver_flowcontrol_{name}_requests": name for name in ("current_executing", "current_inqueue")
    }
    names["rewound_flowcontrol_outside_requests"] = "outside"
    found = {}
    for line in (await api.ask("GET", "/metrics")).text.splitlines():
        name, _, rest = line.partition("{")
        if name in names and f'"{LEVEL}"' in rest:
            found[names[name]] = float(rest.rpartition(" ")[2])
    return found


async def until_outside(api: Api, number: int) -> None:
    with trio.fail_after(60):
        while (await outside(api))["outside"] != number:
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def admission(kind: str, _: Path) -> AsyncIterator[Waiting]:
    answer = Answer()

    async def respond(_: object) -> dict[str, Any]:
        await answer.wait()
        return {}

    async def give() -> None:
        answer.given.set()

    async with hooking(changed=OPEN, slow=respond) as hooks:
        await hooks.configure(kind, hooks.hook("slow.example.com", "/slow", timeoutSeconds=30))
        api = hooks.api
        yield Waiting(api, lambda n: api.ask("POST", MAPS, config_map(f"m{n}"), token=ALICE), give, 201)


@asynccontextmanager
async def conversion(*_: object) -> AsyncIterator[Waiting]:
    answer = Answer()

    async def give() -> None:
        answer.given.set()

    async with converting(changed=OPEN) as server:
        await server.create("a")
        server.wait = answer.wait
        api = server.api
        yield Waiting(api, lambda _: api.ask("GET", server.path("v2", "a"), token=ALICE), give, 200)


@asynccontextmanager
async def aggregation(*_: object) -> AsyncIterator[Waiting]:
    answer = Answer()

    async def respond(call: Call) -> None:
        await answer.wait()
        await call.reply(b"{}", "Connection: close")

    async def give() -> None:
        answer.given.set()

    backend = serving(discovering(respond), certificate="service")
    async with backend as found, aggregating(**OPEN) as api:
        await register(api, found.port)
        yield Waiting(api, lambda n: api.ask("GET", f"{GROUP_VERSION}/things/t{n}", token=ALICE), give, 200)


@asynccontextmanager
async def authorization(_: str, folder: Path) -> AsyncIterator[Waiting]:
    answer = Answer()

    async def respond(received: Received) -> dict[str, Any]:
        review = received.document
        if review["spec"]["user"] == "alice":
            await answer.wait()
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "status": {"allowed": True}}

    async def give() -> None:
        answer.given.set()

    def ask(api: Api, number: int) -> Awaitable[ApiResponse]:
        """Two of three requests ask for the same, and share the call."""
        return api.ask("GET", f"/api/v1/namespaces/n{number // 2}/configmaps", token=ALICE)

    async with https_peer(respond) as peer:
        file = peer.kubeconfig(folder)
        webhook = AuthorizationSettings(
            authorization_webhook_config_file=file, authorization_webhook_version="v1"
        )
        async with served(authorization_mode="Webhook", authorization=webhook, **ONE_SEAT) as api:
            yield Waiting(api, partial(ask, api), give, 200)


@asynccontextmanager
async def version(kind: str, _: Path) -> AsyncIterator[Waiting]:
    async with served(**OPEN) as api:
        head = int((await api.create("configmaps", config_map("a")))["metadata"]["resourceVersion"])

        async def give() -> None:
            newest = head
            for number in range(9):
                if newest < head + 9:
                    made = await api.create("configmaps", config_map(f"b{number}"))
                    newest = int(made["metadata"]["resourceVersion"])

        path = f"{MAPS}/a" if kind == "get" else MAPS
        ask = partial(api.ask, "GET", f"{path}?resourceVersion={head + 9}", token=ALICE)
        yield Waiting(api, lambda _: ask(), give, 200)


@pytest.mark.parametrize(
    ("somebody", "kind"),
    [
        (admission, "validating"),
        (admission, "mutating"),
        (conversion, ""),
        (aggregation, ""),
        (authorization, ""),
        (version, "get"),
        (version, "list"),
    ],
)
async def test_others_do_not_wait(
    somebody: Callable[..., Any], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "VERSION_WAIT", 60.0)
    statuses: list[int] = []

    async with somebody(kind, tmp_path) as waiting, trio.open_nursery() as nursery:
        api = waiting.api

        async def ask(number: int) -> None:
            statuses.append((await waiting.ask(number)).status)

        for number in range(3):
            nursery.start_soon(ask, number)
        await until_outside(api, 3)
        with trio.fail_after(60):
            for _ in range(2):
                got = await api.ask("GET", MAPS, headers={"impersonate-user": "bob"})  # of the same level
                assert got.status == 200
        assert await outside(api) == {"current_executing": 0, "current_inqueue": 0, "outside": 3}
        assert statuses == []
        await waiting.answer()
        with trio.fail_after(60):
            while len(statuses) < 3:
                await trio.lowlevel.checkpoint()
        assert statuses == [waiting.status] * 3
        assert await outside(api) == {"current_executing": 0, "current_inqueue": 0, "outside": 0}
