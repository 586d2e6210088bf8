"""kill -9 while retention compacts a long past, under load: what it had passed is gone, all else is whole."""

from __future__ import annotations

from pathlib import Path

from tests.robustness.backlog import write_backlog
from tests.robustness.blow import while_compacting
from tests.robustness.trial import FORGET, trial

EVENTS, OBJECTS = 8000, 200


def test_killed_while_compacting(tmp_path: Path) -> None:
    with trial(tmp_path, "compacting", FORGET) as one:
        write_backlog(one.cluster.journal, events=EVENTS, objects=OBJECTS)
        one.live(while_compacting(EVENTS // 8 + one.chance.randrange(EVENTS // 2)))
        one.finish()
        floor = one.history.lives[0].ledger.floor
    assert floor > 0, "nothing was compacted before the kill"
