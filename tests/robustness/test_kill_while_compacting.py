"""SIGKILL while retention compacts many old events, under load: everything above the floor stays exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness.backlog import write_backlog
from tests.robustness.termination import while_compacting
from tests.robustness.trial import FORGET, trial

EVENTS, OBJECTS = 8000, 200


@pytest.mark.slow
def test_killed_while_compacting(tmp_path: Path) -> None:
    with trial(tmp_path, "compacting", FORGET) as one:
        write_backlog(one.cluster.journal, events=EVENTS, objects=OBJECTS)
        one.run_until(while_compacting(EVENTS // 8 + one.rng.randrange(EVENTS // 2)))
        one.finish()
        floor = one.history.runs[0].contents.floor
    assert floor > 0, "nothing was compacted before the kill"
