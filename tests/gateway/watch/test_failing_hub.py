"""Watches keep their guarantees while the hub fails to record commits: they miss nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import orjson
import pytest
from trio.testing import wait_all_tasks_blocked

from rewound.gateway.watch.changes import Changes
from rewound.gateway.watch.group import Sweeper
from rewound.journal.records import Event
from tests.gateway.watch.memory_hub import MemoryHub, Watcher, memory_hub
from tests.robustness.expected_events import Entry
from tests.robustness.interest import Interest
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.objects import Key, bare
from tests.robustness.observations import Observations, Stream, WatchEvent, WatchSession
from tests.robustness.validate.watch import validate_watches

PLURAL = "configmaps"  # the resource under which the validators handle the things of the memory hub


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, where: str) -> Iterator[None]:
    """Fail for things called "bad" while being stored in memory, or while waking groups."""
    add, wake = Changes.add, Sweeper.wake

    def failing_add(self: Changes, events: Sequence[Event]) -> None:
        add(self, events)
        if any(event.name == "bad" for event in events):
            raise RuntimeError("made up")

    def failing_wake(self: Sweeper) -> None:
        raise RuntimeError("made up")

    with monkeypatch.context() as patch:
        if where == "add":
            patch.setattr(Changes, "add", failing_add)
        else:
            patch.setattr(Sweeper, "wake", failing_wake)
        yield
    assert (Changes.add, Sweeper.wake) == (add, wake)


def log(base: MemoryHub) -> JournalFollower:
    follower = JournalFollower()
    with base.journal.read() as view:
        for event in view.events(0):
            key = Key(PLURAL, "", event.name)
            entry = Entry(event.offset, key, event.removed, bare(orjson.loads(event.body)))
            follower.add(event.time, event.offset, entry)
    return follower


def session(watcher: Watcher, start: int) -> WatchSession:
    events = [
        WatchEvent(
            one["type"],
            int(one["object"]["metadata"]["resourceVersion"]),
            Key(PLURAL, "", one["object"]["metadata"].get("name", "")),
            bare(one["object"]),
        )
        for one in watcher.events
    ]
    stream = Stream("memory", start, 0, 1000.0, 1000.0, 200, events, None, "in good order")
    return WatchSession("a watcher", Interest(PLURAL), "at a version", None, [stream])


@pytest.mark.parametrize("where", ["add", "wake"])
async def test_watches_miss_and_repeat_nothing_when_the_hub_fails(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory_hub() as base:
        early, start = base.join(), base.feed.head
        base.put("a")
        await wait_all_tasks_blocked()
        with failing(monkeypatch, where):
            base.commit([base.event("good"), base.event("bad"), base.event("unheard")])
            await wait_all_tasks_blocked()
            assert early.names == ["a"]
            late = base.join(after=start)
            await wait_all_tasks_blocked()
        base.put("b")
        await wait_all_tasks_blocked()
        assert base.hub.newest() == base.feed.head
        for watcher in (early, late):
            assert watcher.names == ["a", "good", "bad", "unheard", "b"]
            validate_watches(Observations(1000.0, [session(watcher, start)]), log(base))
