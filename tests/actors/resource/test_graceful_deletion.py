"""Pods on a node get a grace period; all others are removed at once, and watchers see both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewound.journal.records import Event
from tests.actors.object_store import Store, open_store
from tests.cases import cases

CONTAINERS = [{"name": "c", "image": "i"}]


def pod(**parts: Any) -> dict[str, Any]:
    metadata = parts.pop("metadata", {})
    spec = {"automountServiceAccountToken": False, "containers": CONTAINERS, **parts}
    return {"metadata": {"name": "p", **metadata}, "spec": spec}


async def is_removed(store: Store) -> bool:
    return not (await store.list("pods"))["items"]


def deletion_of(response: dict[str, Any]) -> tuple[str, int]:
    metadata = response["metadata"]
    return metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]


@cases("seconds", [None, 0, 30, -1])
async def test_pod_without_a_node_is_removed_at_once(seconds: int | None) -> None:
    async with open_store() as store:
        made = await store.create("pods", pod())
        query = {} if seconds is None else {"gracePeriodSeconds": seconds}
        response = await store.delete("pods", "p", **query)
        assert deletion_of(response) == ("2023-11-14T22:13:20Z", 0)
        assert int(response["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
        assert await is_removed(store)


async def test_watchers_see_the_deletion_timestamp_and_the_removal() -> None:
    async with open_store() as store:
        await store.create("pods", pod())
        seen: list[Event] = []

        def follow(events: Sequence[Event]) -> None:
            seen.extend(events)

        store.feed.follow(follow)
        response = await store.delete("pods", "p")
        marked_deleted, removed = seen
        assert not marked_deleted.removed and removed.removed and removed.previous == marked_deleted.offset
        assert response["metadata"]["resourceVersion"] == str(marked_deleted.offset)
        assert b'"deletionGracePeriodSeconds":0' in removed.body


async def test_pod_on_a_node_keeps_its_grace_period() -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n", terminationGracePeriodSeconds=20))
        assert deletion_of(await store.delete("pods", "p")) == ("2023-11-14T22:13:40Z", 20)
        assert not await is_removed(store)


async def test_grace_period_can_be_set_and_shortened_but_not_extended() -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n"))
        first = await store.delete("pods", "p", gracePeriodSeconds=10)
        assert deletion_of(first) == ("2023-11-14T22:13:30Z", 10)
        store.clock.advance(3)
        assert await store.delete("pods", "p", gracePeriodSeconds=60) == first
        assert await store.delete("pods", "p") == first
        assert deletion_of(await store.delete("pods", "p", gracePeriodSeconds=5)) == (
            "2023-11-14T22:13:25Z",
            5,
        )
        assert deletion_of(await store.delete("pods", "p", gracePeriodSeconds=0)) == (
            "2023-11-14T22:13:20Z",
            0,
        )
        assert await is_removed(store)


async def test_negative_grace_period_means_one_second() -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n", terminationGracePeriodSeconds=-5))
        assert deletion_of(await store.delete("pods", "p"))[1] == 1


@cases(
    ("seconds", "until"),
    [
        (9_223_372_036, "2316-02-24T22:00:36Z"),
        (9_223_372_037, "1731-08-05T22:26:03Z"),
        (2**63 - 1, "2023-11-14T22:13:19Z"),
    ],
)
async def test_longest_grace_periods_wrap_as_in_go(seconds: int, until: str) -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n", terminationGracePeriodSeconds=seconds))
        assert deletion_of(await store.delete("pods", "p")) == (until, seconds)
        shortened = await store.delete("pods", "p", gracePeriodSeconds=5)
        assert shortened["metadata"]["deletionTimestamp"].startswith("2023-11-14T22:13:2")


async def test_finalizers_keep_a_pod_after_its_grace_period() -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n", metadata={"finalizers": ["example.com/x"]}))
        assert deletion_of(await store.delete("pods", "p", gracePeriodSeconds=0))[1] == 0
        assert not await is_removed(store)
        assert deletion_of(await store.delete("pods", "p", gracePeriodSeconds=30))[1] == 0


async def test_dry_run_stores_no_deletion_timestamp() -> None:
    async with open_store() as store:
        made = await store.create("pods", pod(nodeName="n"))
        for seconds in (30, 0):
            shown = await store.delete("pods", "p", gracePeriodSeconds=seconds, dryRun="All")
            assert deletion_of(shown)[1] == seconds
            assert shown["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert await store.get("pods", "p") == made


async def test_update_does_not_end_the_grace_period() -> None:
    async with open_store() as store:
        await store.create("pods", pod(nodeName="n"))
        terminating = await store.delete("pods", "p")
        terminating["metadata"]["labels"] = {"a": "b"}
        await store.replace("pods", terminating)
        assert not await is_removed(store)
