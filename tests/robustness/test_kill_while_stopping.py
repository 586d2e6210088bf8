"""SIGKILL after SIGTERM, while the server still responds: no acknowledged write is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness.termination import while_stopping
from tests.robustness.trial import trial


@pytest.mark.slow
def test_killed_while_stopping(tmp_path: Path) -> None:
    with trial(tmp_path, "stopping") as one:
        one.run_until(while_stopping(one.rng))
        one.finish()
