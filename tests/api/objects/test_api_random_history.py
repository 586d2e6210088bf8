"""Random writes, restarts and passing time are compared with a model: every exact version equals the model.

The model is a list of states, one per version. Every version that the server still serves must equal it, and every
version that it refuses must be older than the watch history.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.actors.object_store import WATCH_HISTORY, Refused, Verbs
from tests.gateway.api import Opener, everywhere

NAMESPACES = ["cluster-public", "default"]
State = dict[tuple[str, str], str]


class Model:
    def __init__(self, version: int, now: int) -> None:
        self.states: dict[int, State] = {version: {}}
        self.times: dict[int, int] = {version: now}
        self.newest = version

    def change(self, version: int, now: int, key: tuple[str, str], text: str | None) -> None:
        assert version > self.newest
        state = dict(self.states[self.newest])
        if text is None:
            del state[key]
        else:
            state[key] = text
        self.states[version], self.times[version], self.newest = state, now, version

    def oldest_answerable(self, now: int) -> int:
        """The version at the beginning of the watch history."""
        begins = now - WATCH_HISTORY * 1_000_000
        return max((version for version, time in self.times.items() if time <= begins), default=0)


class Run:
    def __init__(self, api: Verbs, model: Model, chance: random.Random) -> None:
        self.api, self.model, self.chance = api, model, chance

    async def step(self) -> None:
        act = self.chance.choices(
            [self.write, self.read_exactly, self.read_newest, self.wait, self.api.restart], [10, 6, 2, 2, 0.3]
        )[0]
        await act()

    async def wait(self) -> None:
        self.api.clock.advance(self.chance.choice([1, 60, WATCH_HISTORY // 2]))

    async def write(self) -> None:
        key = namespace, name = self.chance.choice(NAMESPACES), f"c{self.chance.randrange(6)}"
        text = str(self.chance.random())
        body = {"metadata": {"name": name}, "data": {"text": text}}
        if key not in self.model.states[self.model.newest]:
            document = await self.api.create("configmaps", body, namespace)
            version = int(document["metadata"]["resourceVersion"])
        elif self.chance.random() < 0.5:
            document = await self.api.replace("configmaps", body, namespace)
            version = int(document["metadata"]["resourceVersion"])
        else:
            await self.api.delete("configmaps", name, namespace)
            text, version = None, int((await self.api.list("configmaps"))["metadata"]["resourceVersion"])
        self.model.change(version, self.api.clock.now(), key, text)

    async def read_newest(self) -> None:
        namespace = self.chance.choice([None, *NAMESPACES])
        listed = await self.api.list("configmaps", namespace)
        assert int(listed["metadata"]["resourceVersion"]) == self.model.newest
        assert contents(listed) == self.expected(self.model.newest, namespace)

    async def read_exactly(self) -> None:
        version, namespace = (
            self.chance.choice(list(self.model.states)),
            self.chance.choice([None, *NAMESPACES]),
        )
        query: dict[str, Any] = {"resourceVersion": version}
        if self.chance.random() < 0.5:
            query["resourceVersionMatch"] = "Exact"
        else:
            query["limit"] = self.chance.randrange(1, 4)
        answerable = version >= self.model.oldest_answerable(self.api.clock.now())
        try:
            found = await self.all_pages(namespace, query)
        except Refused as refused:
            outcome = refused.reason
        else:
            outcome = "listed"
            assert found == self.expected(version, namespace)
        assert outcome == ("listed" if answerable else "Expired")

    async def all_pages(self, namespace: str | None, query: dict[str, Any]) -> State:
        found: State = {}
        while True:
            page = await self.api.list("configmaps", namespace, **query)
            found |= contents(page)
            left = page["metadata"].get("remainingItemCount", 0)
            assert left + len(found) == len(
                self.expected(int(page["metadata"]["resourceVersion"]), namespace)
            )
            if "continue" not in page["metadata"]:
                return found
            query = {"limit": query["limit"], "continue": page["metadata"]["continue"]}

    def expected(self, version: int, namespace: str | None) -> State:
        state = self.model.states[version]
        return {key: text for key, text in state.items() if namespace in (None, key[0])}


def contents(listed: dict[str, Any]) -> State:
    return {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item["data"]["text"]
        for item in listed["items"]
    }


@everywhere
@pytest.mark.parametrize("seed", range(3))
async def test_every_version_equals_the_model(opened: Opener, seed: int) -> None:
    async with opened() as api:
        newest = int((await api.list("configmaps"))["metadata"]["resourceVersion"])
        run = Run(api, Model(newest, api.clock.now()), random.Random(seed))
        for _ in range(150):
            await run.step()
