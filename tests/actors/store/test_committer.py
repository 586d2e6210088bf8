"""The committer commits batches, calls back when they are durable, and fails every proposal after a failed batch."""

import time
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.errors import StorageRefused
from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.store.committer import Committer
from rewound.actors.store.feed import Feed
from rewound.actors.store.proposal import Proposal, offset_of
from rewound.journal.errors import StorageFull
from rewound.journal.log import Journal
from rewound.journal.records import Event
from tests.actors.store.proposals import creation
from tests.actors.unread_journal import UNREAD


def proposal(name: str, time: int = 1, previous: int | Proposal = 0) -> Proposal:
    return creation(1, name, previous, time)


@pytest.fixture
def journal(tmp_path):
    journal = Journal.open(tmp_path)
    assert journal.register_type("things") == 1
    yield journal
    journal.close()


class Log:
    """A journal that only records batches, and raises the error that a test sets."""

    head = time = 0

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.events: list[Event] = []
        self.failing = False

    def encode(self, events):
        return events

    def write(self, events, on_put):
        if self.failing:
            raise StorageFull(Path("data"), "No space left on device")
        on_put()
        self.batches.append([one.name for one in events])
        self.events += events


async def test_events_are_durable_when_the_callback_runs(journal):
    feed = Feed(journal.head, journal)
    committer = Committer(journal, feed)
    seen: list[tuple[Exception | None, int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        committer.submit([proposal("a")], lambda failure: seen.append((failure, journal.head)))
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert seen == [(None, 1)]
    assert feed.head == 1


async def test_proposals_submitted_together_are_one_commit():
    log = Log()
    committer = Committer(log, Feed(0, UNREAD))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        await wait_all_tasks_blocked()
        for name in "abc":
            committer.submit([proposal(name)], lambda failure: None)
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert log.batches == [["a", "b", "c"]]
    assert committer.statistics().largest_batch == 3


async def test_empty_submission_waits_for_earlier_ones():
    log = Log()
    committer = Committer(log, Feed(0, UNREAD))
    order: list[str] = []
    async with trio.open_nursery() as nursery:
        committer.submit([proposal("a")], lambda failure: order.append("a"))
        committer.submit([], lambda failure: order.append("nothing"))
        nursery.start_soon(committer.run)
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert order == ["a", "nothing"]


async def test_failed_batch_is_reported_and_its_offsets_are_not_reused():
    log = Log()
    log.failing = True
    committer = Committer(log, Feed(0, UNREAD))
    failures: list[Exception | None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        committer.submit([proposal("a")], failures.append)
        await committer.drained()
        log.failing = False
        later = proposal("b")
        committer.submit([later], failures.append)
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert isinstance(failures[0], StorageRefused)
    assert "No space left" in str(failures[0])
    assert failures[1] is None
    assert offset_of(later) == 2
    assert log.batches == [["b"]]


async def committed(*proposals: Proposal) -> list[Event]:
    log = Log()
    committer = Committer(log, Feed(0, UNREAD))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        committer.submit(proposals, lambda failure: None)
        await committer.drained()
        nursery.cancel_scope.cancel()
    return log.events


async def test_event_times_never_decrease():
    events = await committed(*(proposal("a", time) for time in (5, 3, 9)))
    assert [(event.offset, event.time) for event in events] == [(1, 5), (2, 5), (3, 9)]


async def test_ordering_sets_the_offset_in_bodies_and_previous_offsets():
    first = proposal("a")
    events = await committed(proposal("b"), first, proposal("a", previous=first), proposal("c", previous=7))
    assert [event.previous for event in events] == [0, 0, 2, 7]
    assert [event.body for event in events] == [
        b'{"metadata":{"name":"x","resourceVersion":"%d"}}' % offset for offset in (1, 2, 3, 4)
    ]


async def test_proposal_has_no_offset_before_its_batch_is_ordered():
    committer, submitted = Committer(Log(), Feed(0, UNREAD)), proposal("a")
    committer.submit([submitted], lambda failure: None)
    assert submitted.event is None


async def test_slow_disk_moves_commits_to_a_worker_thread(monkeypatch):
    monkeypatch.setattr("rewound.actors.store.committer.SLOW_COMMIT", 0.0)
    log = Log()
    committer = Committer(log, Feed(0, UNREAD))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        for name in "ab":
            committer.submit([proposal(name)], lambda failure: None)
            await committer.drained()
        assert committer.statistics().in_thread
        nursery.cancel_scope.cancel()
    assert log.batches == [["a"], ["b"]]


async def test_batch_waits_for_as_many_as_the_newest_one_if_the_disk_is_slow(monkeypatch, mock_clock):
    mock_clock.rate = 1.0
    monkeypatch.setattr("rewound.actors.store.committer.SLOW_COMMIT", 0.0)
    monkeypatch.setattr("rewound.actors.store.committer.GATHERING", 1e9)
    log = Log()
    committer = Committer(log, Feed(0, UNREAD))

    def submit(names: str) -> None:
        for name in names:
            committer.submit([proposal(name)], lambda failure: None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        await wait_all_tasks_blocked()
        submit("abc")
        await committer.drained()
        for name in "def":
            await wait_all_tasks_blocked()
            assert log.batches == [["a", "b", "c"]]
            submit(name)
        await committer.drained()
        assert log.batches == [["a", "b", "c"], ["d", "e", "f"]]
        submit("g")
        await wait_all_tasks_blocked()
        assert log.batches[2:] == []
        mock_clock.jump(1e9)  # there are no other writes: it waits only this long
        await committer.drained()
        submit("h")
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert log.batches[2:] == [["g"], ["h"]]


@pytest.mark.parametrize("jumps", [False, True])
async def test_slow_disk_does_not_wait_for_a_clock_that_stands_still(monkeypatch, mock_clock, jumps):
    """On a slow machine, tests with such a clock would hang."""
    monkeypatch.setattr("rewound.actors.store.committer.SLOW_COMMIT", 0.0)
    mock_clock.autojump_threshold = 0.0 if jumps else float("inf")
    log = Log()
    committer = Committer(log, Feed(0, UNREAD))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        for names in ("ab", "c", "de", "f"):
            for name in names:
                committer.submit([proposal(name)], lambda failure: None)
            await committer.drained()
        assert committer.statistics().in_thread
        nursery.cancel_scope.cancel()
    assert log.batches == [["a", "b"], ["c"], ["d", "e"], ["f"]]
    assert trio.current_time() == began


async def test_waiting_for_the_interpreter_lock_does_not_count_as_a_slow_disk(monkeypatch):
    monkeypatch.setattr("rewound.actors.store.committer.SLOW_COMMIT", 0.004)

    class SlowPuts(Log):
        def write(self, events, on_put):
            time.sleep(0.02)
            super().write(events, on_put)

    committer = Committer(SlowPuts(), Feed(0, UNREAD))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        for _ in range(5):
            committer.submit([proposal("a")], lambda failure: None)
            await committer.drained()
        assert committer.statistics().seconds > 0.1
        assert not committer.statistics().in_thread
        nursery.cancel_scope.cancel()


async def test_failed_commit_says_nothing_about_the_disk(monkeypatch):
    monkeypatch.setattr(
        "rewound.actors.store.committer.SLOW_COMMIT", -1.0
    )  # every measured commit counts as slow
    log = Log()
    log.failing = True
    committer = Committer(log, Feed(0, UNREAD))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        committer.submit([proposal("a")], lambda failure: None)
        await committer.drained()
        assert not committer.statistics().in_thread
        log.failing = False
        committer.submit([proposal("b")], lambda failure: None)
        await committer.drained()
        assert committer.statistics().in_thread
        nursery.cancel_scope.cancel()


async def test_housekeeping_runs_between_batches():
    committer = Committer(Log(), Feed(0, UNREAD))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        assert await committer.perform(lambda: 42) == 42
        with pytest.raises(ZeroDivisionError):
            await committer.perform(lambda: 1 // 0)
        nursery.cancel_scope.cancel()


async def test_housekeeping_runs_even_if_there_is_always_a_next_batch():
    committer = Committer(Log(), Feed(0, UNREAD))
    batches = 0

    def submit_next(failure: Exception | None) -> None:
        nonlocal batches
        batches += 1
        if batches < 100:
            committer.submit([proposal("a")], submit_next)

    async with trio.open_nursery() as nursery:
        submit_next(None)
        nursery.start_soon(committer.run)
        await committer.perform(lambda: None)
        assert batches < 10
        nursery.cancel_scope.cancel()


async def test_callback_that_raises_does_not_affect_the_others():
    committer = Committer(Log(), Feed(0, UNREAD))
    results: list[Exception | None] = []

    def broken(failure: Exception | None) -> None:
        raise RuntimeError("a mistake in an actor")

    async with trio.open_nursery() as nursery:
        for done in (broken, results.append):
            committer.submit([proposal("a")], done)
        nursery.start_soon(committer.run)
        await committer.drained()
        committer.submit([proposal("b")], results.append)
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert results == [None, None]


async def test_drained_waits_for_callbacks_of_empty_submissions_while_commits_run_in_a_thread(monkeypatch):
    monkeypatch.setattr("rewound.actors.store.committer.SLOW_COMMIT", 0.0)
    committer = Committer(Log(), Feed(0, UNREAD))
    results: list[Exception | None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        committer.submit([proposal("a")], results.append)
        await committer.drained()
        assert committer.statistics().in_thread
        committer.submit([], results.append)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        await committer.drained()
        nursery.cancel_scope.cancel()
        assert results == [None, None]


async def test_batch_that_cannot_be_ordered_fails_and_the_restarted_committer_continues(autojump_clock):
    committer = Committer(Log(), Feed(0, UNREAD))
    results: list[Exception | None] = []
    async with trio.open_nursery() as nursery:
        committer.submit([proposal("a", previous=proposal("never submitted"))], results.append)
        committer.submit([proposal("b")], results.append)
        nursery.start_soon(Supervisor().keep, "committer", committer.run)
        with trio.fail_after(60):
            await committer.drained()
            assert [type(one) for one in results] == [AssertionError, AssertionError]
            committer.submit([proposal("b")], results.append)
            await committer.drained()
        nursery.cancel_scope.cancel()
    assert results[2:] == [None]


async def test_batch_gathers_what_arrives_while_several_clients_write():
    log = Log()
    committer = Committer(log, Feed(0, UNREAD))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        committer.submit([proposal("a"), proposal("b")], lambda failure: None)
        for _ in range(20):  # trio runs the tasks of one pass of the loop in any order
            await wait_all_tasks_blocked()
            committer.submit([proposal("a")], lambda failure: None)
            await trio.lowlevel.checkpoint()
            committer.submit([proposal("b")], lambda failure: None)
        await committer.drained()
        nursery.cancel_scope.cancel()
    assert log.batches == [["a", "b"]] * 21


async def test_write_after_one_that_was_alone_waits_for_no_others():
    committer = Committer(Log(), Feed(0, UNREAD))
    passes = 0

    async def count_passes() -> None:
        nonlocal passes
        while True:
            passes += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        await wait_all_tasks_blocked()
        nursery.start_soon(count_passes)
        for _ in range(20):
            committer.submit([proposal("a")], lambda failure: None)
            await committer.drained()
        nursery.cancel_scope.cancel()
    assert passes <= 2 * 20 + 5, "a pass to write, and one to continue"
