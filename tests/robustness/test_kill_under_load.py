"""kill -9 at a random moment of random traffic."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness.blow import under_load
from tests.robustness.trial import trial


@pytest.mark.parametrize("slow_disk", [False, True], ids=["commits in the loop", "commits in a thread"])
def test_killed_under_load(tmp_path: Path, slow_disk: bool) -> None:
    with trial(tmp_path, "under load", slow_disk=slow_disk) as one:
        one.live(under_load(one.chance))
        tally = one.finish()
    assert tally.acknowledged > 0
