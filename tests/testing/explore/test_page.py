"""The example in docs/explore.md fails as the page says."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import rewound

PAGE = (Path(__file__).parents[3] / "docs" / "explore.md").read_text()


def test_example_prints_these_steps(tmp_path: Path) -> None:
    blocks = [one for one in re.findall(r"(?:^    .*\n|^\n)+", PAGE, re.MULTILINE) if one.strip()]
    code, printed = blocks[:2]
    names: dict[str, Any] = {}
    exec(textwrap.dedent(code), names)
    repeat = re.findall(r"repeat='(.*)'", printed)[0]
    with pytest.raises(rewound.ExplorationFailed) as failed:
        rewound.explore(
            names["replicas"],
            names["scale"],
            invariants=[names["at_most_two_pods"]],
            seed=1,
            repeat=repeat,
            keep=tmp_path,
        )
    assert failed.value.steps == re.findall(r"step \d+: (.*)", printed)
    # The version depends on how many objects a new server has.
    reason = re.sub(r"version \d+", "version 211", failed.value.reason)
    assert all(line in printed for line in reason.splitlines())
