"""Writes to one namespace wait for each other; writes to different namespaces do not."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.controllers.namespace_slots import NamespaceSlots


async def test_namespace_has_so_many_writes_at_a_time(nursery: trio.Nursery) -> None:
    slots, begun, ends = NamespaceSlots(2), list[str](), [trio.Event() for _ in range(5)]

    async def write(namespace: str, number: int) -> None:
        async with slots.of(namespace):
            begun.append(f"{namespace}{number}")
            await ends[number].wait()

    for number, namespace in enumerate("aaaab"):
        nursery.start_soon(write, namespace, number)
        await wait_all_tasks_blocked()
    assert begun == ["a0", "a1", "b4"]
    ends[1].set()
    await wait_all_tasks_blocked()
    assert begun[3:] == ["a2"]
    for end in ends:
        end.set()
    await wait_all_tasks_blocked()
    assert begun[4:] == ["a3"] and not (slots._used or slots._waiting)


async def test_cancelled_write_leaves_its_place(nursery: trio.Nursery) -> None:
    slots, done = NamespaceSlots(1), trio.Event()

    async def wait() -> None:
        async with slots.of("a"):
            done.set()

    async with slots.of("a"):
        with trio.move_on_after(0):
            await wait()
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert not done.is_set()
    await done.wait()
    await wait_all_tasks_blocked()
    assert not (slots._used or slots._waiting)
