"""The committer gathers batches, answers after durability, and refuses all that hangs on a failed batch."""

from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors.errors import StorageRefused
from actors.store.committer import Committer
from actors.store.feed import Feed
from journal.errors import StorageFull
from journal.log import Journal
from journal.records import Event


def event(committer: Committer, name: str, time: int = 1) -> Event:
    offset, at = committer.reserve(time)
    return Event(
        offset, 1, "create", "ns", name, 0, False, at, "user", "manager", b"\x90", b'{"metadata":{}}'
    )


@pytest.fixture
def journal(tmp_path):
    journal = Journal.open(tmp_path)
    assert journal.register_type("things") == 1
    yield journal
    journal.close()


class Log:
    """Stands where the journal stands: remembers batches, and fails when told to."""

    head = time = 0

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.failing = False

    def append(self, events):
        if self.failing:
            raise StorageFull(Path("data"), "No space left on device")
        self.batches.append([one.name for one in events])


async def test_events_are_durable_when_done_is_called(journal):
    feed = Feed(journal.head)
    committer = Committer(journal, feed)
    seen: list[tuple[Exception | None, int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        committer.submit([event(committer, "a")], lambda failure: seen.append((failure, journal.head)))
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert seen == [(None, 1)]
    assert feed.head == 1


async def test_what_is_submitted_together_is_one_commit():
    log = Log()
    committer = Committer(log, Feed(0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        await wait_all_tasks_blocked()
        for name in "abc":
            committer.submit([event(committer, name)], lambda failure: None)
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert log.batches == [["a", "b", "c"]]
    assert committer.statistics().largest_batch == 3


async def test_an_empty_submission_waits_for_those_before_it():
    log = Log()
    committer = Committer(log, Feed(0))
    order: list[str] = []
    async with trio.open_nursery() as nursery:
        committer.submit([event(committer, "a")], lambda failure: order.append("a"))
        committer.submit([], lambda failure: order.append("nothing"))
        nursery.start_soon(committer.run)
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert order == ["a", "nothing"]


async def test_a_failed_batch_is_told_and_offsets_are_not_reused():
    log = Log()
    log.failing = True
    committer = Committer(log, Feed(0))
    failures: list[Exception | None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        committer.submit([event(committer, "a")], failures.append)
        await committer.drained()
        log.failing = False
        later = event(committer, "b")
        committer.submit([later], failures.append)
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert isinstance(failures[0], StorageRefused)
    assert "No space left" in str(failures[0])
    assert failures[1] is None
    assert later.offset == 2
    assert log.batches == [["b"]]


async def test_time_never_goes_back_along_the_log():
    committer = Committer(Log(), Feed(0))
    assert [committer.reserve(time) for time in (5, 3, 9)] == [(1, 5), (2, 5), (3, 9)]


async def test_a_slow_disk_moves_commits_to_a_thread(monkeypatch):
    monkeypatch.setattr("actors.store.committer.QUICK", 0.0)
    log = Log()
    committer = Committer(log, Feed(0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        for name in "ab":
            committer.submit([event(committer, name)], lambda failure: None)
            await committer.drained()
        assert committer.statistics().in_thread
        nursery.cancel_scope.cancel()
    assert log.batches == [["a"], ["b"]]


async def test_housekeeping_runs_between_batches():
    committer = Committer(Log(), Feed(0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        assert await committer.perform(lambda: 42) == 42
        with pytest.raises(ZeroDivisionError):
            await committer.perform(lambda: 1 // 0)
        nursery.cancel_scope.cancel()
