"""A follower of the feed that raises does not affect the others, and misses no event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.store.feed import RETRY_PAUSE
from rewound.journal.batching import MOST
from rewound.journal.records import Event
from tests.actors.object_store import Store, open_store


class Follower:
    """Records offsets; raises in the middle of a batch while a test sets an error."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.failing = False

    def __call__(self, events: Sequence[Event]) -> None:
        if self.failing:
            raise RuntimeError("made up")
        self.offsets += [event.offset for event in events]


@asynccontextmanager
async def followed() -> AsyncIterator[tuple[Store, Follower, Follower]]:
    """A store with two followers, in this order."""
    async with open_store() as store:
        first, second = Follower(), Follower()
        for follower in (first, second):
            store.feed.follow(follower)
        yield store, first, second


async def write(store: Store, *names: str) -> list[int]:
    made = [await store.create("configmaps", {"metadata": {"name": name}}) for name in names]
    return [int(one["metadata"]["resourceVersion"]) for one in made]


async def test_later_followers_and_waiters_get_the_batch(caplog: pytest.LogCaptureFixture) -> None:
    async with followed() as (store, first, second):
        first.failing = True
        waited = trio.Event()

        async def wait() -> None:
            await store.feed.reached(store.journal.head + 1)
            waited.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            versions = await write(store, "a")
            await waited.wait()
        assert (first.offsets, second.offsets) == ([], versions)
        assert "a follower of the feed failed" in caplog.text


async def test_failed_follower_gets_missed_events_first() -> None:
    async with followed() as (store, first, second):
        versions = await write(store, "a")
        first.failing = True
        versions += await write(store, "b", "c")
        assert first.offsets == versions[:1]
        first.failing = False
        versions += await write(store, "d")
        assert first.offsets == second.offsets == versions


async def test_failed_follower_gets_missed_events_without_a_new_batch(autojump_clock: MockClock) -> None:
    async with followed() as (store, first, _), trio.open_nursery() as nursery:
        nursery.start_soon(store.feed.run)
        first.failing = True
        versions = await write(store, "a", "b")
        await trio.sleep(RETRY_PAUSE * 5.5)
        assert first.offsets == []
        first.failing = False
        await trio.sleep(RETRY_PAUSE)
        assert first.offsets == versions
        nursery.cancel_scope.cancel()


@pytest.mark.holds_loop("actors of these tests decide all writes that wait in one step, 1,200 here")
async def test_follower_far_behind_gets_all_events_in_order() -> None:
    async with followed() as (store, first, second):
        first.failing = True
        total = MOST + 200
        async with trio.open_nursery() as nursery:
            for number in range(total):
                nursery.start_soon(write, store, f"x{number}")
        first.failing = False
        await write(store, "last")
        assert first.offsets == second.offsets
        assert len(first.offsets) == total + 1


async def test_follower_that_unfollows_gets_no_more_events() -> None:
    async with followed() as (store, first, second):
        first.failing = True
        await write(store, "a")
        store.feed.unfollow(first)
        first.failing = False
        await write(store, "b")
        assert first.offsets == [] and len(second.offsets) == 2


async def test_follower_of_a_type_gets_batches_with_its_events() -> None:
    async with followed() as (store, everything, _):
        of_type, of_other = Follower(), Follower()
        store.feed.follow(of_type, frozenset({store.journal.type_id("configmaps")}))
        store.feed.follow(of_other, frozenset({store.journal.type_id("secrets")}))
        versions = await write(store, "a", "b")
        assert (everything.offsets, of_type.offsets, of_other.offsets) == (versions, versions, [])


async def test_failed_follower_of_a_type_misses_nothing() -> None:
    async with followed() as (store, _, _):
        secrets = Follower()
        store.feed.follow(secrets, frozenset({store.journal.type_id("secrets")}))
        await write(store, "a")
        secrets.failing = True
        made = await store.create("secrets", {"metadata": {"name": "s"}})
        secrets.failing = False
        await write(store, "b")
        assert int(made["metadata"]["resourceVersion"]) in secrets.offsets


async def test_events_that_a_follower_cannot_read_delay_the_others_by_one_pause(
    autojump_clock: MockClock,
) -> None:
    async with open_store() as store:
        read: list[int] = []

        def follow(events: Sequence[Event]) -> None:
            for event in events:
                if event.name.startswith("poisoned"):
                    raise KeyError("spec")
                read.append(event.offset)

        store.feed.follow(follow)
        await write(store, *(f"poisoned-{number}" for number in range(20)))
        (good,) = await write(store, "good")
        await trio.sleep(2.5 * RETRY_PAUSE)
        assert good in read
        assert store.feed.behind() == 0


async def test_other_failures_wait_for_the_next_pass(autojump_clock: MockClock) -> None:
    async with followed() as (store, _, _):
        calls = 0

        def fail(events: Sequence[Event]) -> None:
            nonlocal calls
            calls += 1
            raise RuntimeError("made up")

        store.feed.follow(fail)
        await write(store, "a")
        await trio.sleep(3.5 * RETRY_PAUSE)
        assert calls <= 2 * 4
        assert store.feed.behind() == 1
