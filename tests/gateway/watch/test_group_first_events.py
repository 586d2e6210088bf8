"""Where the first event of a stream is encoded differently, each member gets that once, and then joins the sweep."""

from __future__ import annotations

from trio.testing import wait_all_tasks_blocked

from tests.gateway.watch.memory_hub import FakePipe, Watcher, memory_hub


def differs(watcher: Watcher) -> list[bool]:
    return ["columns" in event["object"] for event in watcher.events]


async def test_first_event_is_encoded_differently_once() -> None:
    async with memory_hub() as base:
        early, late = base.join(first_differs=True), base.join(first_differs=True)
        base.put("a")
        await wait_all_tasks_blocked()
        later = base.join(first_differs=True)
        behind = base.join(first_differs=True, after=0)
        base.put("b")
        base.put("c")
        await wait_all_tasks_blocked()
        assert differs(early) == differs(late) == [True, False, False]
        assert differs(later) == [True, False]
        assert differs(behind) == [True, False, False]
        assert not early.group.lagging


async def test_first_event_sent_in_part_is_completed() -> None:
    async with memory_hub() as base:
        whole = base.join(first_differs=True)
        base.commit([base.event(name) for name in "ab"])
        await wait_all_tasks_blocked()
        for room in range(len(whole.pipe.received)):
            watcher = base.join(FakePipe(room=room), first_differs=True, after=0)
            await wait_all_tasks_blocked()
            watcher.pipe.read(10**9)
            await wait_all_tasks_blocked()
            assert watcher.pipe.received == whole.pipe.received
            base.leave(watcher, first_differs=True)


async def test_first_event_is_the_first_that_matches() -> None:
    async with memory_hub() as base:
        watcher = base.join(labels="app", first_differs=True)
        base.put("a")
        await wait_all_tasks_blocked()
        base.put("b", app="x")
        await wait_all_tasks_blocked()
        base.put("c", app="x")
        await wait_all_tasks_blocked()
        assert watcher.names == ["b", "c"]
        assert differs(watcher) == [True, False]
