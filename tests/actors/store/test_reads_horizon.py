"""The oldest readable version, as the journal grows and time passes."""

from __future__ import annotations

from rewound.actors.store.reads import FRESH_FOR, Horizon
from rewound.journal import retention
from tests.actors.object_store import open_store

SECOND = 1_000_000


async def test_floor_is_the_version_at_the_begin_of_the_window() -> None:
    async with open_store() as store:
        horizon = Horizon(store.journal, store.clock, 100 * SECOND)
        versions = []
        for number in range(3):
            made = await store.create("configmaps", {"metadata": {"name": f"c{number}"}})
            versions.append(int(made["metadata"]["resourceVersion"]))
            store.clock.advance(50)
        # c0 is 150 s old, c1 100 s, c2 50 s.
        assert horizon.floor() == versions[1]
        store.clock.advance(49)
        assert horizon.floor() == versions[1]
        store.clock.advance(2)
        assert horizon.floor() == versions[2]


async def test_current_version_of_an_idle_journal_stays_readable() -> None:
    async with open_store() as store:
        horizon = Horizon(store.journal, store.clock, 100 * SECOND)
        store.clock.advance(1_000_000)
        assert horizon.floor() == store.journal.head


async def test_journal_younger_than_the_window_has_no_floor() -> None:
    async with open_store() as store:
        assert Horizon(store.journal, store.clock, 100 * SECOND).floor() == 0


async def test_floor_never_decreases_with_the_clock() -> None:
    async with open_store() as store:
        horizon = Horizon(store.journal, store.clock, 100 * SECOND)
        await store.create("configmaps", {"metadata": {"name": "a"}})
        store.clock.advance(200)
        floor = horizon.floor()
        assert floor == store.journal.head
        store.clock.advance(-500)
        assert horizon.floor() == floor
        store.clock.advance(2 * FRESH_FOR / SECOND)
        assert horizon.floor() == floor


async def test_compaction_raises_the_floor() -> None:
    async with open_store() as store:
        horizon = Horizon(store.journal, store.clock, 100 * SECOND)
        for number in range(3):
            await store.create("configmaps", {"metadata": {"name": f"c{number}"}})
        while not retention.advance(store.journal, store.journal.head - 1, max_events=100).done:
            pass
        store.clock.advance(1)
        assert horizon.floor() == store.journal.head - 1
