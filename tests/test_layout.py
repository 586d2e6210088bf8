"""The documentation names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_documentation_names_files_that_exist() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    pattern = re.compile(r"`((?:actors|gateway|journal|tests|benchmarks)/[\w/.-]*[\w/])`")
    named = {(page.name, path) for page in pages for path in pattern.findall(page.read_text())}
    assert len(named) > 30
    ignored = {"benchmarks/results/", "benchmarks/results/scratch"}
    missing = sorted(
        (page, path) for page, path in named if path not in ignored and not (ROOT / path).exists()
    )
    assert missing == []
