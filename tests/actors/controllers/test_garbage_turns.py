"""The garbage collector checks the many owners of an object, and many objects with owners, in turns."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.controllers.stored_objects import PAGE_SIZE
from rewound.actors.runtime import turns
from tests.actors.controllers.control_plane import open_control_plane, owner_reference

OWNERS = 1000


async def test_object_with_many_owners_is_checked_in_parts(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One part in each turn, and again after a restart; dangling references are removed, the solid one remains."""
    taken = 0
    wait = turns.next_turn

    async def counted() -> None:
        nonlocal taken
        taken += 1
        await wait()

    async with open_control_plane(tmp_path, controllers=False) as cluster:
        owner = owner_reference(await cluster.create("configmaps", "o"))
        missing = [{**owner, "name": f"m{number}", "uid": f"u{number}"} for number in range(OWNERS)]
        await cluster.create("configmaps", "d", owners=[*missing, owner])
    monkeypatch.setattr(turns, "TURN", 0.0)
    monkeypatch.setattr(turns, "next_turn", counted)
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle()
        kept = cluster.get("configmaps", "d")
        assert kept is not None and [one["name"] for one in kept["metadata"]["ownerReferences"]] == ["o"]
    assert taken >= 2 * OWNERS // 64


async def test_many_objects_are_checked_in_turns_at_a_start(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn counts all objects since it began, not each for itself."""
    taken, moment = 0, 0.0
    wait = turns.next_turn

    async def counted() -> None:
        nonlocal taken
        taken += 1
        await wait()

    def clock() -> float:
        nonlocal moment
        moment += turns.TURN / 4
        return moment

    async with open_control_plane(tmp_path, controllers=False) as cluster:
        owner = owner_reference(await cluster.create("configmaps", "o"))
        for number in range(PAGE_SIZE):
            await cluster.create("configmaps", f"d{number}", owners=[owner])
    monkeypatch.setattr(turns, "now", clock)
    monkeypatch.setattr(turns, "next_turn", counted)
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle()
    assert taken >= PAGE_SIZE // 4
