"""Random holds, releases, lags and cuts: in the end a watcher has exactly the events of an undisturbed one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.actors.object_store import Document
from tests.gateway.api import Api, labelled
from tests.gateway.watch.watching import watching
from tests.settling import settled
from tests.testing.faults.injecting import PATH, injecting, set_faults

HOLDS = "/debug/rewound/holds"
SELECTORS: list[dict[str, str]] = [{}, {"labelSelector": "app=a"}, {"fieldSelector": "metadata.name=m1"}]
TRANSPORTS = ("plain", "ws", "h2")


class Watcher:
    """Resumes from the last version that it has seen, also from a bookmark, whenever it is cut."""

    def __init__(self, api: Api, agent: str, transport: str, query: dict[str, str], version: str) -> None:
        self._api, self._agent, self._transport, self._query = api, agent, transport, query
        self._version = version
        self.events: list[tuple[str, str, str]] = []
        self.cut: Callable[[], None] = lambda: None

    async def run(self) -> None:
        while True:
            query = {"resourceVersion": self._version, "allowWatchBookmarks": "true", **self._query}
            headers = {"user-agent": self._agent}
            self.cut = lambda: None  # while it connects
            with trio.CancelScope() as scope:
                async with watching(self._api, PATH, self._transport, headers=headers, **query) as watch:
                    self.cut = scope.cancel
                    while True:
                        (event,) = await watch.take(1)
                        self._take(event)

    def _take(self, event: Document) -> None:
        metadata = event["object"]["metadata"]
        assert event["type"] != "ERROR", event
        assert int(metadata["resourceVersion"]) >= int(self._version)
        self._version = metadata["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self.events.append((event["type"], metadata["name"], self._version))


class Run:
    def __init__(self, api: Api, seed: int) -> None:
        self._api, self._seed, self._random = api, seed, random.Random(seed)
        self._existing: set[str] = set()
        self._holds: list[str] = []

    async def run(self) -> None:
        version = await self._api.head()
        pairs = []
        async with trio.open_nursery() as nursery:
            for query in SELECTORS:
                transport = self._random.choice(TRANSPORTS)
                agents = ("operator/1", "free/1")
                pair = [Watcher(self._api, agent, transport, query, version) for agent in agents]
                pairs.append(pair)
                for one in pair:
                    nursery.start_soon(one.run)
            await settled()
            for _ in range(30):
                await self._step([held for held, _ in pairs])
            await set_faults(self._api)
            (await self._api.ask("DELETE", HOLDS)).expect(200)
            await settled()
            nursery.cancel_scope.cancel()
        for held, free in pairs:
            assert held.events == free.events, self._seed
        for name in self._existing:
            await self._api.delete("configmaps", name)

    async def _step(self, watchers: list[Watcher]) -> None:
        choice = self._random.randrange(10)
        if choice < 5:
            await self._write()
        elif choice == 5:
            match: dict[str, Any] = {"userAgent": "operator/*"}
            held = (await self._api.ask("POST", HOLDS, {"match": match})).expect(201)
            self._holds.append(held["name"])
        elif choice < 8 and self._holds:
            name = self._random.choice(self._holds)
            count = self._random.choice([1, 1, 2, 5, None])
            body = None if count is None else {"events": count}
            (await self._api.ask("POST", f"{HOLDS}/{name}/release", body)).expect(200)
            if count is None:
                self._holds.remove(name)
        elif choice == 8:
            self._random.choice(watchers).cut()
        else:
            lag = {
                "match": {"userAgent": "operator/*"},
                "fault": {"lagWatch": {"events": self._random.randint(1, 4)}},
            }
            await set_faults(self._api, *self._random.choice([[], [lag]]))
        if self._random.random() < 0.5:
            await settled()

    async def _write(self) -> None:
        name = f"m{self._random.randrange(3)}"
        body = labelled(name, app=self._random.choice("ab"), n=str(self._random.randrange(10**6)))
        if name not in self._existing:
            await self._api.create("configmaps", body)
            self._existing.add(name)
        elif self._random.random() < 0.3:
            await self._api.delete("configmaps", name)
            self._existing.remove(name)
        else:
            await self._api.replace("configmaps", body)


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 150), marks=pytest.mark.slow)])
async def test_held_watchers_get_the_same_events(seeds: range) -> None:
    async with injecting() as api:
        for seed in seeds:
            await Run(api, seed).run()
