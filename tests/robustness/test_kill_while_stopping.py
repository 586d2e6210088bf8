"""kill -9 while a server that was told to stop still answers: stopping loses nothing, whenever it ends."""

from __future__ import annotations

from pathlib import Path

from tests.robustness.blow import while_stopping
from tests.robustness.trial import trial


def test_killed_while_stopping(tmp_path: Path) -> None:
    with trial(tmp_path, "stopping") as one:
        one.live(while_stopping(one.chance))
        one.finish()
