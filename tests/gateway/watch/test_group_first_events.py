"""Where the first event of a stream has a form of its own, everybody gets it once, and sweeps from then on."""

from __future__ import annotations

from trio.testing import wait_all_tasks_blocked

from tests.gateway.watch.memory_hub import FakePipe, Watcher, memory_hub


def described(watcher: Watcher) -> list[bool]:
    return ["columns" in event["object"] for event in watcher.events]


async def test_once_and_at_once() -> None:
    async with memory_hub() as base:
        early, late = base.join(described=True), base.join(described=True)
        base.put("a")
        await wait_all_tasks_blocked()
        later = base.join(described=True)
        behind = base.join(described=True, after=0)
        base.put("b")
        base.put("c")
        await wait_all_tasks_blocked()
        assert described(early) == described(late) == [True, False, False]
        assert described(later) == [True, False]
        assert described(behind) == [True, False, False]
        assert not early.group.lagging


async def test_cut_anywhere() -> None:
    async with memory_hub() as base:
        whole = base.join(described=True)
        base.commit([base.event(name) for name in "ab"])
        await wait_all_tasks_blocked()
        for room in range(len(whole.pipe.received)):
            watcher = base.join(FakePipe(room=room), described=True, after=0)
            await wait_all_tasks_blocked()
            watcher.pipe.read(10**9)
            await wait_all_tasks_blocked()
            assert watcher.pipe.received == whole.pipe.received
            base.leave(watcher, described=True)


async def test_only_what_matches_is_first() -> None:
    async with memory_hub() as base:
        watcher = base.join(labels="app", described=True)
        base.put("a")
        await wait_all_tasks_blocked()
        base.put("b", app="x")
        await wait_all_tasks_blocked()
        base.put("c", app="x")
        await wait_all_tasks_blocked()
        assert watcher.names == ["b", "c"]
        assert described(watcher) == [True, False]
