"""A long list runs checkpoints between its batches, and still reads one state."""

from __future__ import annotations

import pytest
import trio

from actors.store.reads import ListOptions
from tests.actors.object_store import open_store


async def test_list_does_not_contain_writes_between_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.store.reads.BATCH_ROWS", 2)
    async with open_store() as store:
        for number in range(9):
            await store.create("configmaps", {"metadata": {"name": f"c{number}"}})
        before = await store.list("configmaps")
        found = []
        turns = 0

        async def read() -> None:
            listing = await store.reads.listing(store.definition("configmaps"), "default", ListOptions())
            found.append(listing)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            while not found:
                await trio.lowlevel.checkpoint()
                turns += 1
                if turns == 2 and not found:
                    await store.delete("configmaps", "c7")
                    await store.create("configmaps", {"metadata": {"name": "c5a"}})
        assert turns >= 2
        assert len(found[0].bodies) == 9
        assert str(found[0].version) == before["metadata"]["resourceVersion"]
