"""Pods on a node are given time to end; all others go at once, and both are seen to go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from journal.records import Event
from tests.actors.object_store import Store, open_store

CONTAINERS = [{"name": "c", "image": "i"}]


def pod(**parts: Any) -> dict[str, Any]:
    metadata = parts.pop("metadata", {})
    spec = {"automountServiceAccountToken": False, "containers": CONTAINERS, **parts}
    return {"metadata": {"name": "p", **metadata}, "spec": spec}


async def gone(store: Store) -> bool:
    return not (await store.list("pods"))["items"]


def marks(answer: dict[str, Any]) -> tuple[str, int]:
    metadata = answer["metadata"]
    return metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]


@pytest.mark.parametrize("seconds", [None, 0, 30, -1])
async def test_nobody_waits_for_a_pod_on_no_node(seconds: int | None) -> None:
    async with open_store() as store:
        made = await store.create("pods", pod())
        query = {} if seconds is None else {"gracePeriodSeconds": seconds}
        answer = await store.delete("pods", "p", **query)
        assert marks(answer) == ("2023-11-14T22:13:20Z", 0)
        assert int(answer["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
        assert await gone(store)


async def test_watchers_see_it_end_and_go() -> None:
    async with open_store() as store:
        await store.create("pods", pod())
        seen: list[Event] = []

        def follow(events: Sequence[Event]) -> None:
            seen.extend(events)

        store.feed.follow(follow)
        answer = await store.delete("pods", "p")
        ended, removed = seen
        assert not ended.removed and removed.removed and removed.previous == ended.offset
        assert answer["metadata"]["resourceVersion"] == str(ended.offset)
        assert b'"deletionGracePeriodSeconds":0' in removed.body


async def test_on_a_node_it_keeps_its_time() -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n", terminationGracePeriodSeconds=20))
        assert marks(await store.delete("pods", "p")) == ("2023-11-14T22:13:40Z", 20)
        assert not await gone(store)


async def test_the_time_can_be_asked_for_and_cut_but_not_stretched() -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n"))
        first = await store.delete("pods", "p", gracePeriodSeconds=10)
        assert marks(first) == ("2023-11-14T22:13:30Z", 10)
        store.clock.advance(3)
        assert await store.delete("pods", "p", gracePeriodSeconds=60) == first
        assert await store.delete("pods", "p") == first
        assert marks(await store.delete("pods", "p", gracePeriodSeconds=5)) == ("2023-11-14T22:13:25Z", 5)
        assert marks(await store.delete("pods", "p", gracePeriodSeconds=0)) == ("2023-11-14T22:13:20Z", 0)
        assert await gone(store)


async def test_a_negative_time_is_a_second() -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n", terminationGracePeriodSeconds=-5))
        assert marks(await store.delete("pods", "p"))[1] == 1


async def test_finalizers_hold_it_when_its_time_is_over() -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n", metadata={"finalizers": ["example.com/x"]}))
        assert marks(await store.delete("pods", "p", gracePeriodSeconds=0))[1] == 0
        assert not await gone(store)
        assert marks(await store.delete("pods", "p", gracePeriodSeconds=30))[1] == 0


async def test_a_dry_run_only_shows_it() -> None:
    async with open_store() as store:
        made = await store.create("pods", pod(nodeName="n"))
        for seconds in (30, 0):
            shown = await store.delete("pods", "p", gracePeriodSeconds=seconds, dryRun="All")
            assert marks(shown)[1] == seconds
            assert shown["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert await store.get("pods", "p") == made


async def test_changes_do_not_end_it_early() -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n"))
        ending = await store.delete("pods", "p")
        ending["metadata"]["labels"] = {"a": "b"}
        await store.replace("pods", ending)
        assert not await gone(store)
