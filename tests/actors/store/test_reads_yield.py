"""A long list yields whenever it has used up its turn, and still reads one state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count

import pytest
import trio

from rewound.actors.runtime import turns
from rewound.actors.selectors import LabelSelector
from rewound.actors.store.reads import Listing, ListOptions, ListReader
from tests.actors.object_store import Store, open_store

OBJECTS = 20


@pytest.fixture(autouse=True)
def slow_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read of the clock finds that a whole turn has passed."""
    for clock in ("now", "processor_now"):
        monkeypatch.setattr(turns, clock, partial(_next_turn, count()))


def _next_turn(times: Iterator[int]) -> float:
    return next(times) * turns.TURN


async def fill(store: Store) -> None:
    for number in range(OBJECTS):
        await store.create("configmaps", {"metadata": {"name": f"c{number:02d}", "labels": {"app": "a"}}})


async def turns_of(work: Callable[[], Awaitable[None]], meanwhile: Callable[[int], Awaitable[None]]) -> int:
    """How many turns another task got while this work ran."""
    ended = False
    turns = 0

    async def run() -> None:
        nonlocal ended
        await work()
        ended = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        while not ended:
            await trio.lowlevel.checkpoint()
            turns += 1
            await meanwhile(turns)
    return turns


async def nothing(_turn: int) -> None:
    pass


async def test_selector_that_matches_nothing_yields() -> None:
    async with open_store() as store:
        await fill(store)
        found: list[Listing] = []
        options = ListOptions(labels=LabelSelector.parse("app=other"))

        async def read() -> None:
            found.append(await store.reads.listing(store.definition("configmaps"), "default", options))

        assert await turns_of(read, nothing) >= OBJECTS // 2
        assert found[0].bodies == []


async def test_list_that_other_processes_interrupt_is_read_in_one_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its rows would have to be found again in every further turn."""
    monkeypatch.setattr(turns, "processor_now", lambda: 0.0)
    async with open_store() as store:
        await fill(store)
        options = ListOptions(labels=LabelSelector.parse("app=a"))
        reader = await store.reads.open(store.definition("configmaps"), "default", options)
        assert isinstance(reader, ListReader)
        assert len(reader.step()) == OBJECTS and reader.complete


@pytest.mark.parametrize("selector", [None, "app=a"])
async def test_list_does_not_contain_writes_between_its_turns(
    monkeypatch: pytest.MonkeyPatch, selector: str | None
) -> None:
    monkeypatch.setattr("rewound.actors.store.reads.BATCH_ROWS", 2)
    async with open_store() as store:
        await fill(store)
        before = await store.list("configmaps")
        found: list[Listing] = []
        options = ListOptions(labels=LabelSelector.parse(selector) if selector else None)

        async def read() -> None:
            found.append(await store.reads.listing(store.definition("configmaps"), "default", options))

        async def write(turn: int) -> None:
            if turn == 2:
                await store.delete("configmaps", "c17")
                await store.create("configmaps", {"metadata": {"name": "c05a", "labels": {"app": "a"}}})

        assert await turns_of(read, write) > 2
        assert len(found[0].bodies) == OBJECTS
        assert str(found[0].version) == before["metadata"]["resourceVersion"]


async def test_limit_is_kept_whatever_the_turns() -> None:
    async with open_store() as store:
        await fill(store)
        names: list[str] = []
        token = ""
        for expected in (7, 7, 6):
            page = await store.list("configmaps", limit=7, labelSelector="app=a", **{"continue": token})
            names += [item["metadata"]["name"] for item in page["items"]]
            token = page["metadata"].get("continue", "")
            assert (len(page["items"]), bool(token)) == (expected, expected == 7)
        assert names == [f"c{number:02d}" for number in range(OBJECTS)]


async def test_rebuild_of_an_old_version_yields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewound.journal.replay.STEP_EVENTS", 1)
    async with open_store() as store:
        await fill(store)
        before = await store.list("configmaps")
        for number in range(OBJECTS):
            await store.delete("configmaps", f"c{number:02d}")
        options = ListOptions(before["metadata"]["resourceVersion"], "Exact")
        found: list[Listing] = []

        async def read() -> None:
            found.append(await store.reads.listing(store.definition("configmaps"), "default", options))

        assert await turns_of(read, nothing) >= OBJECTS // 2
        assert len(found[0].bodies) == OBJECTS


async def test_deletecollection_yields_and_deletes_what_its_first_turn_saw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rewound.actors.resource.collection.LISTED_BYTES", 1)
    async with open_store() as store:
        await fill(store)

        async def write(turn: int) -> None:
            if turn == 1:
                await store.create("configmaps", {"metadata": {"name": "later"}})

        async def delete() -> None:
            await store.delete_collection("configmaps")

        assert await turns_of(delete, write) > OBJECTS // 2
        assert [item["metadata"]["name"] for item in (await store.list("configmaps"))["items"]] == ["later"]
