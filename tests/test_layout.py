"""Folders and files stay small enough to take in at a glance, and the documentation names files that exist.

The groups of `actors/kinds` are exempt: their modules are the kinds of an API group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("actors", "gateway", "journal", "benchmarks")
MAX_MODULES = 15
MAX_LINES = 400
KINDS = ROOT / "actors" / "kinds"
# Parts that kinds are made of are no group: they keep to the rule.
KIND_PARTS = ("declaration", "schema", "validation", "values")


def folders() -> Iterator[Path]:
    for package in PACKAGES:
        yield ROOT / package
        yield from (path for path in (ROOT / package).rglob("*") if path.is_dir())


def is_group(folder: Path) -> bool:
    return folder.is_relative_to(KINDS) and folder.name not in KIND_PARTS


def modules(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.py") if path.name != "__init__.py")


def test_no_folder_has_more_than_fifteen_modules() -> None:
    crowded = {
        str(folder.relative_to(ROOT)): len(modules(folder))
        for folder in folders()
        if not is_group(folder) and len(modules(folder)) > MAX_MODULES
    }
    assert crowded == {}


def test_no_module_has_more_than_four_hundred_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in folders()
        for path in folder.glob("*.py")
        if (lines := path.read_text().count("\n")) > MAX_LINES
    }
    assert long == {}


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
