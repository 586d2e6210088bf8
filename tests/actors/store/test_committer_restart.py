"""A committer continues at the head of the journal: offsets and times never decrease, whatever the clock says."""

from __future__ import annotations

from pathlib import Path

import trio

from rewound.actors.store.committer import Committer
from rewound.actors.store.feed import Feed
from rewound.journal import Journal
from rewound.journal.repair import verify
from tests.actors.store.proposals import creation

LATE, EARLY = 9_000, 1_000


async def write(folder: Path, name: str, time: int) -> tuple[int, int]:
    """Start a committer and write one event at this time."""
    journal = Journal.open(folder)
    committer = Committer(journal, Feed(journal.head, journal))
    proposal = creation(journal.register_type("things"), name, time=time)
    failures: list[Exception | None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        committer.submit([proposal], failures.append)
        await committer.drained()
        nursery.cancel_scope.cancel()
    journal.close()
    assert failures == [None] and proposal.event is not None
    return proposal.event.offset, proposal.event.time


async def test_clock_set_back_between_starts_does_not_decrease_event_times(tmp_path: Path) -> None:
    assert await write(tmp_path, "a", LATE) == (1, LATE)
    assert await write(tmp_path, "b", EARLY) == (2, LATE)
    assert await write(tmp_path, "c", LATE + 1) == (3, LATE + 1)
    journal = Journal.open(tmp_path, readonly=True)
    with journal.read() as view:
        assert verify.verify(view).differences == []
    journal.close()
