"""A follower of the feed that raises does not keep writers from getting their replies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio
from trio.testing import MockClock

from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.store.committer import Committer
from rewound.actors.store.feed import Feed
from rewound.journal import Event, Journal
from tests.actors.store.proposals import creation


def refuse(_: Sequence[Event]) -> None:
    raise RuntimeError("a mistake in a follower")


async def test_writers_get_replies_and_the_committer_continues(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    journal = Journal.open(tmp_path)
    type_id, feed = journal.register_type("things"), Feed(0, journal)
    committer = Committer(journal, feed)
    feed.follow(refuse)
    results: list[Exception | None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Supervisor().keep, "committer", committer.run)
        for name in "ab":
            committer.submit([creation(type_id, name)], results.append)
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert results == [None, None]
    assert journal.head == 2
    journal.close()
