"""Housekeeping runs more often for a short retention than for a long one."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.store.committer import Committer
from rewound.actors.store.feed import Feed
from rewound.actors.store.housekeeping import Housekeeping
from rewound.journal import Event, Journal

SECOND = 1_000_000


class LoopClock:
    """Wall time that advances with the loop's virtual time."""

    def now(self) -> int:
        return round(trio.current_time() * SECOND)


def updates(type_id: int, count: int) -> list[Event]:
    body = b'{"metadata":{}}'
    return [
        Event(offset, type_id, "update", "ns", "a", offset - 1, False, offset, "u", "m", b"\x90", body)
        for offset in range(1, count + 1)
    ]


def floor_of(journal: Journal) -> int:
    with journal.read() as view:
        return view.floor


@pytest.mark.parametrize(("keep", "waited"), [(2, 2.5), (300, 331), (None, 0)])
async def test_retention_is_late_by_at_most_a_tenth(
    tmp_path: Path, autojump_clock: MockClock, keep: int | None, waited: float
) -> None:
    journal = Journal.open(tmp_path)
    journal.append(updates(journal.register_type("things"), 10))
    committer = Committer(journal, Feed(journal.head, journal))
    housekeeping = Housekeeping(journal, committer, LoopClock(), keep and keep * SECOND)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        nursery.start_soon(housekeeping.run)
        await trio.sleep(waited or 1000)
        # Virtual time advances while a thread works: let what has started finish.
        while keep and floor_of(journal) != 9:
            await committer.perform(journal.probe)
        nursery.cancel_scope.cancel()
    assert floor_of(journal) == (9 if keep else 0)
    journal.close()
