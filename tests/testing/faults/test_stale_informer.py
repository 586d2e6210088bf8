"""A controller with a stale cache creates extra pods (kubernetes/kubernetes 129795); the corrected one does not.

The controller keeps as many pods as a set wants (the set is a ConfigMap). It decides by its caches, as every controller
does: when the events of the pods that it has just created are late and anything else makes it look again, it creates
them a second time. Corrected, it expects the events of its own creates, and counts these pods until they arrive.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.actors.object_store import Document
from tests.gateway.api import Api, config_map
from tests.gateway.watch.watching import watching
from tests.settling import settled
from tests.testing.faults.injecting import PATH as SETS
from tests.testing.faults.injecting import injecting, set_faults

PODS = "/api/v1/namespaces/default/pods"
HOLDS = "/debug/rewound/holds"
SPEC = {"containers": [{"name": "c", "image": "i"}]}


class ReplicaController:
    def __init__(self, api: Api, name: str, *, expects: bool) -> None:
        self._api, self._name, self._expects = api, name, expects
        self.agent = {"user-agent": f"{name}/1"}
        self._replicas = 0
        self._pods: set[str] = set()  # the cache
        self._expected: set[str] = set()  # pods of its own whose events have not arrived
        self._synced: set[str] = set()  # what it has listed
        self._turn = trio.Lock()
        self._watches: dict[str, trio.CancelScope] = {}

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                self._follow, SETS, {"fieldSelector": f"metadata.name={self._name}"}, self._set_changed
            )
            nursery.start_soon(self._follow, PODS, {"labelSelector": f"set={self._name}"}, self._pod_changed)

    async def _follow(self, path: str, query: dict[str, str], take: Callable[[str, Document], None]) -> None:
        """List once, then watch from the last version that it has seen, however often the connection ends."""
        listed = (await self._api.ask("GET", path, headers=self.agent, **query)).expect(200)
        version = listed["metadata"]["resourceVersion"]
        for one in listed["items"]:
            take("ADDED", one)
        self._synced.add(path)
        await self._reconcile()
        while True:
            with trio.CancelScope() as self._watches[path]:
                async with watching(
                    self._api, path, headers=self.agent, resourceVersion=version, **query
                ) as watch:
                    while True:
                        (event,) = await watch.take(1)
                        version = event["object"]["metadata"]["resourceVersion"]
                        take(event["type"], event["object"])
                        await self._reconcile()

    def _set_changed(self, _: str, one: Document) -> None:
        self._replicas = int(one["data"]["replicas"])

    def _pod_changed(self, kind: str, pod: Document) -> None:
        name = pod["metadata"]["name"]
        self._expected.discard(name)
        if kind == "DELETED":
            self._pods.discard(name)
        else:
            self._pods.add(name)

    async def _reconcile(self) -> None:
        if len(self._synced) < 2:
            return
        async with self._turn:
            known = self._pods | self._expected if self._expects else self._pods
            for _ in range(self._replicas - len(known)):
                pod = {
                    "metadata": {"generateName": f"{self._name}-", "labels": {"set": self._name}},
                    "spec": SPEC,
                }
                made = (await self._api.ask("POST", PODS, pod, headers=self.agent)).expect(201)
                self._expected.add(made["metadata"]["name"])

    def disconnect(self) -> None:
        for watch in self._watches.values():
            watch.cancel()


@asynccontextmanager
async def controlled(
    api: Api, name: str, replicas: int, *, expects: bool
) -> AsyncIterator[ReplicaController]:
    await api.create("configmaps", config_map(name, replicas=str(replicas)))
    async with trio.open_nursery() as nursery:
        controller = ReplicaController(api, name, expects=expects)
        nursery.start_soon(controller.run)
        await settled()
        yield controller
        nursery.cancel_scope.cancel()


async def touch(api: Api, name: str, replicas: int, text: str) -> None:
    """Change the set without wanting other pods, which makes the controller look again."""
    await api.replace("configmaps", config_map(name, replicas=str(replicas), text=text))
    await settled()


async def pods(api: Api, name: str) -> list[str]:
    listed = await api.list("pods", labelSelector=f"set={name}")
    return [one["metadata"]["name"] for one in listed["items"]]


def lag(name: str, events: int) -> Document:
    match = {"userAgent": f"{name}/*", "resources": ["pods"]}
    return {"match": match, "fault": {"lagWatch": {"events": events}}}


@pytest.mark.parametrize(("expects", "found"), [(False, 6), (True, 3)])
async def test_stale_cache_makes_extra_pods(expects: bool, found: int) -> None:
    async with injecting(lag("web", 6)) as api, controlled(api, "web", 3, expects=expects):
        assert len(await pods(api, "web")) == 3
        await touch(api, "web", 3, "once")
        assert len(await pods(api, "web")) == found
        await set_faults(api)  # the events arrive
        await touch(api, "web", 3, "again")
        assert (len(await pods(api, "web")) == 3) is expects


class RandomLag:
    """One run: the pods of a set while the watch of its controller lags in a random way."""

    def __init__(self, api: Api, seed: int, *, expects: bool) -> None:
        self._api, self._expects = api, expects
        self._random = random.Random(seed)
        self._name = f"set-{seed}-{expects}".lower()
        self._replicas = self._random.randint(1, 3)
        self._held = ""

    async def run(self) -> int:
        """By how many pods the set was exceeded at most."""
        most = 0
        async with controlled(self._api, self._name, self._replicas, expects=self._expects) as controller:
            for number in range(8):
                await self._step(number, controller)
                most = max(most, len(await pods(self._api, self._name)))
            await self._catch_up()
            assert len(await pods(self._api, self._name)) >= self._replicas  # it is not stuck
        await self._api.delete_collection("pods", labelSelector=f"set={self._name}")
        return most - self._replicas

    async def _step(self, number: int, controller: ReplicaController) -> None:
        api, choice = self._api, self._random.randrange(6)
        if choice == 0:
            await set_faults(api, lag(self._name, self._random.randint(1, 5)))
        elif choice == 1 and not self._held:
            match = {"userAgent": f"{self._name}/*", "resources": ["pods"]}
            self._held = (await api.ask("POST", HOLDS, {"match": match})).expect(201)["name"]
        elif choice == 2 and self._held:
            await self._release({"events": self._random.randint(1, 3)})
        elif choice == 3:
            controller.disconnect()
        elif choice == 4 and (living := await pods(api, self._name)):
            await api.delete("pods", self._random.choice(living), gracePeriodSeconds=0)
        else:
            await touch(api, self._name, self._replicas, str(number))
        await settled()

    async def _release(self, body: Any) -> None:
        (await self._api.ask("POST", f"{HOLDS}/{self._held}/release", body)).expect(200)
        if body is None:
            self._held = ""

    async def _catch_up(self) -> None:
        await set_faults(self._api)
        if self._held:
            await self._release(None)
        await settled()


PARTS = [pytest.param(range(first, first + 100), marks=pytest.mark.slow) for first in range(0, 1000, 100)]


@pytest.mark.parametrize("seeds", [range(8), *PARTS])
async def test_expectations_hold_under_random_lags(seeds: range) -> None:
    """1,000 runs in the long version."""
    async with injecting() as api:
        for seed in seeds:
            assert await RandomLag(api, seed, expects=True).run() <= 0, f"seed {seed}"


async def test_random_lags_find_the_mistake() -> None:
    async with injecting() as api:
        exceeded = [seed for seed in range(4) if await RandomLag(api, seed, expects=False).run() > 0]
        assert exceeded
