"""Random writes with random watchers: the objects that each has collected equal the list at its last version."""

from __future__ import annotations

from typing import Any

import trio
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.actors.object_store import Document
from tests.examples import examples
from tests.gateway.api import Api, served
from tests.gateway.watch.watching import Watch, type_and_name, version, watching
from tests.settling import settled

NAMES = "abcdef"
SELECTORS = ["", "app=web", "app!=web", "tier", "!tier", "app in (web,db),tier"]

writes = st.tuples(
    st.just("write"),
    st.sampled_from(NAMES),
    st.sampled_from(["web", "db", ""]),
    st.sampled_from(["1", ""]),
)
steps = st.one_of(
    writes,
    writes,
    writes,
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(
        st.just("watch"),
        st.sampled_from(SELECTORS),
        st.sampled_from(["state", "list"]),
        st.sampled_from(["plain", "ws", "h2"]),
    ),
    st.tuples(st.just("leave"), st.integers(0, 5)),
    st.tuples(st.just("resume"), st.integers(0, 5)),
    st.tuples(st.just("settle")),
)


class Follower:
    """A client with a local copy: it lists or takes initial events, watches, disconnects and resumes."""

    def __init__(self, api: Api, selector: str, transport: str) -> None:
        self._api = api
        self._selector = {"labelSelector": selector} if selector else {}
        self._transport = transport
        self.copy: dict[str, int] = {}
        self.last = ""
        self._watch: Watch | None = None
        self._leaving = trio.Event()
        self._left = trio.Event()

    async def list(self) -> None:
        listed = await self._api.list("configmaps", **self._selector)
        self.copy = held(listed)
        self.last = listed["metadata"]["resourceVersion"]

    async def watch(self) -> None:
        if self._watch is None:
            self._leaving, self._left = trio.Event(), trio.Event()
            await self._api.nursery.start(self._hold)

    async def _hold(self, task_status: trio.TaskStatus[None]) -> None:
        query: dict[str, Any] = {"resourceVersion": self.last} if self.last else {}
        path = self._api.path("configmaps")
        async with watching(self._api, path, self._transport, **query, **self._selector) as self._watch:
            task_status.started()
            await self._leaving.wait()
        self._left.set()

    async def leave(self) -> None:
        """Disconnect at any point: only what was read counts."""
        if self._watch is not None:
            self.fold()
            self._watch = None
            self._leaving.set()
            await self._left.wait()

    def fold(self) -> None:
        assert self._watch is not None
        for event in self._watch.untaken:
            self._fold(event)
        self._watch._taken = len(self._watch.events)

    def _fold(self, event: Document) -> None:
        kind, name = type_and_name(event)
        if kind == "ADDED":
            assert name not in self.copy, f"{name} added twice"
        else:
            assert name in self.copy, f"{name} {kind} but not there"
        if self.last or kind != "ADDED":
            assert version(event) > int(self.last or 0), "versions do not ascend"
            self.last = str(version(event))
        self.copy[name] = version(event)
        if kind == "DELETED":
            del self.copy[name]

    async def check(self) -> None:
        if self._watch is None:
            return
        self.fold()
        now = await self._api.list("configmaps", **self._selector)
        assert self.copy == held(now)
        if self.last and self._watch.events:
            then = {"resourceVersion": self.last, "resourceVersionMatch": "Exact"}
            assert self.copy == held(await self._api.list("configmaps", **then, **self._selector))
        # The sweep sends all events after this.
        self.last = self.last or now["metadata"]["resourceVersion"]


def held(listed: Document) -> dict[str, int]:
    return {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in listed["items"]}


async def perform(api: Api, followers: list[Follower], step: tuple[Any, ...]) -> None:
    action, *values = step
    if action == "write":
        await write(api, *values)
    elif action == "delete":
        await api.ask("DELETE", api.path("configmaps", name=values[0]))
    elif action == "watch":
        selector, start, transport = values
        follower = Follower(api, selector, transport)
        if start == "list":
            await follower.list()
        followers.append(follower)
        await follower.watch()
        if start == "state":
            await settle([follower])
    elif followers and action in ("leave", "resume"):
        follower = followers[values[0] % len(followers)]
        await (follower.leave() if action == "leave" else follower.watch())
    elif action == "settle":
        await settle(followers)


async def write(api: Api, name: str, app: str, tier: str) -> None:
    labels = {key: value for key, value in (("app", app), ("tier", tier)) if value}
    body = {"metadata": {"name": name, "labels": labels}, "data": {"n": await api.head()}}
    response = await api.ask("PUT", api.path("configmaps", name=name), body)
    if response.status == 404:
        await api.create("configmaps", body)


async def settle(followers: list[Follower]) -> None:
    await settled()
    for follower in followers:
        await follower.check()


@examples(8, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=5, max_size=50))
def test_every_copy_is_the_list(traffic: list[tuple[Any, ...]]) -> None:
    async def run() -> None:
        async with served() as api:
            followers: list[Follower] = []
            try:
                for step in traffic:
                    await perform(api, followers, step)
                for follower in followers:
                    await follower.watch()
                await settle(followers)
            finally:
                for follower in followers:
                    await follower.leave()

    trio.run(run)
