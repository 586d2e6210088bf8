"""Housekeeping notices that a full disk has room again, even without writes."""

from pathlib import Path

import pytest
import trio

from rewound.actors.runtime.clock import WallClock
from rewound.actors.store.committer import Committer
from rewound.actors.store.feed import Feed
from rewound.actors.store.housekeeping import Housekeeping
from rewound.journal.errors import StorageFull
from rewound.journal.log import Journal


class Full(Journal):
    full = True

    def probe(self) -> None:
        if self.full:
            raise StorageFull(Path("data"), "No space left on device")
        super().probe()


async def test_failure_is_cleared_once_a_write_succeeds(tmp_path):
    journal = Full.open(tmp_path)
    committer = Committer(journal, Feed(journal.head, journal))
    housekeeping = Housekeeping(journal, committer, WallClock(), None)
    committer.last_failure = "full"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        with pytest.raises(StorageFull):
            await housekeeping.run_once()
        assert committer.last_failure == "full"
        journal.full = False
        await housekeeping.run_once()
        assert committer.last_failure == ""
        assert journal.head == 0
        nursery.cancel_scope.cancel()
    journal.close()


async def test_probe_stores_nothing(tmp_path):
    journal = Journal.open(tmp_path)
    before = journal.statistics()["head"], journal.types()
    journal.probe()
    assert (journal.statistics()["head"], journal.types()) == before
    with journal.read() as view:
        assert view.txn.get(b"probe", db=journal.environment.databases.meta) is None
    journal.close()
