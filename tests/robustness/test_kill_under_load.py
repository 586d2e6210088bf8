"""kill -9 at a random moment of random traffic."""

from __future__ import annotations

from pathlib import Path

from tests.robustness.blow import under_load
from tests.robustness.trial import trial


def test_killed_under_load(tmp_path: Path) -> None:
    with trial(tmp_path, "under load") as one:
        for _ in range(2):
            one.live(under_load(one.chance))
        tally = one.finish()
    assert tally.acknowledged > 0
