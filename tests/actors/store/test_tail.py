"""The feed of a process that follows a journal written by another process; here one process does both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio

from rewound.actors.store.feed import Feed
from rewound.actors.store.tail import AT_ONCE, OwnCommits, Tail
from rewound.journal.errors import Compacted
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.retention import advance


def event(offset: int, type_id: int = 1) -> Event:
    body = b'{"metadata":{"resourceVersion":"%d"}}' % offset
    return Event(offset, type_id, "create", "default", f"n{offset}", 0, False, offset, "u", "m", b"", body)


class Follower:
    def __init__(self, journal: Journal) -> None:
        self.feed = Feed(journal.head, journal)
        self.committed = 0
        self.tail = Tail(journal, self.feed, lambda: self.committed)
        self.batches: list[list[int]] = []
        self.feed.follow(self._follow)

    def _follow(self, events: Sequence[Event]) -> None:
        self.batches.append([one.offset for one in events])


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path / "journal")
    opened.register_type("pods")
    yield opened
    opened.close()


@pytest.fixture
def follower(journal: Journal) -> Follower:
    return Follower(journal)


def test_it_publishes_what_was_committed_once(journal: Journal, follower: Follower) -> None:
    journal.append([event(1), event(2)])
    journal.append([event(3)])
    follower.committed = 3
    follower.tail.catch_up()
    follower.tail.catch_up()
    assert follower.batches == [[1, 2, 3]]
    assert follower.feed.head == 3


def test_it_does_not_look_before_the_writer_says_that_there_is_something(
    journal: Journal, follower: Follower
) -> None:
    journal.append([event(1)])
    follower.tail.catch_up()
    assert follower.batches == []


def test_it_publishes_what_is_committed_beyond_what_the_writer_said(
    journal: Journal, follower: Follower
) -> None:
    journal.append([event(1)])
    journal.append([event(2)])
    follower.committed = 1
    follower.tail.catch_up()
    assert follower.batches == [[1, 2]]


def test_many_events_are_published_in_parts(journal: Journal, follower: Follower) -> None:
    count = AT_ONCE * 2 + 1
    journal.append([event(offset) for offset in range(1, count + 1)])
    follower.committed = count
    follower.tail.catch_up()
    assert [len(batch) for batch in follower.batches] == [AT_ONCE, AT_ONCE, 1]
    assert [offset for batch in follower.batches for offset in batch] == list(range(1, count + 1))


def test_a_process_that_is_too_far_behind_cannot_continue(journal: Journal, follower: Follower) -> None:
    journal.append([event(offset) for offset in range(1, 11)])
    advance(journal, 8, max_events=100)
    follower.committed = 10
    with pytest.raises(Compacted):
        follower.tail.catch_up()


async def test_process_that_writes_waits_for_its_feed_only_if_others_can_have_seen_more(
    journal: Journal, follower: Follower, autojump_clock: object
) -> None:
    own = OwnCommits(journal, follower.feed, lambda: follower.committed)
    assert own.missing() is None
    follower.committed = 1  # right before the commit
    assert own.missing() is None
    journal.append([event(1)])  # by a thread: its event is not published yet
    later = own.missing()
    assert later is not None
    waited = False

    async def wait() -> None:
        nonlocal waited
        await later
        waited = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(10)
        assert not waited
        follower.feed.publish([event(1)])
    assert own.missing() is None
