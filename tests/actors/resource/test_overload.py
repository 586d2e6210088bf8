"""A full mailbox refuses commands at once; commands that it has accepted are carried out."""

from __future__ import annotations

import pytest
import trio

from tests.actors.object_store import Refused, open_store


async def test_commands_beyond_the_capacity_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store() as store:
        monkeypatch.setattr("rewound.actors.resource.actor.MAILBOX_CAPACITY", 3)
        outcomes: list[str] = []

        async def create(number: int) -> None:
            try:
                await store.create("configmaps", {"metadata": {"name": f"c{number}"}})
                outcomes.append("made")
            except Refused as refused:
                outcomes.append(refused.reason)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(create, number)
        assert sorted(outcomes) == ["TooManyRequests"] * 7 + ["made"] * 3
        assert len((await store.list("configmaps"))["items"]) == 3
        statistics = store.directory.statistics()["configmaps"]
        assert (statistics.received, statistics.refused, statistics.waiting) == (3, 7, 0)


async def test_full_mailbox_does_not_affect_other_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store() as store:
        monkeypatch.setattr("rewound.actors.resource.actor.MAILBOX_CAPACITY", 0)
        with pytest.raises(Refused):
            await store.create("configmaps", {"metadata": {"name": "a"}})
        monkeypatch.undo()
        await store.create("secrets", {"metadata": {"name": "a"}})
