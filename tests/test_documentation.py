"""The documentation names files that exist, its links lead somewhere, and its pages stay short where they must."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "tests").rglob("*.md")]

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_documentation_names_files_that_exist() -> None:
    pattern = re.compile(r"`((?:actors|gateway|journal|tests|benchmarks)/[\w/.-]*[\w/])`")
    named = {(page.name, path) for page in PAGES for path in pattern.findall(page.read_text())}
    assert len(named) > 30
    ignored = {"benchmarks/results/", "benchmarks/results/scratch"}
    missing = sorted(
        (page, path) for page, path in named if path not in ignored and not (ROOT / path).exists()
    )
    assert missing == []


def test_links_lead_to_files_and_headings_that_exist() -> None:
    broken = [
        (str(page.relative_to(ROOT)), link)
        for page in PAGES
        for link in _LINK.findall(_FENCE.sub("", page.read_text()))
        if not link.startswith(("http://", "https://")) and not _leads_somewhere(page, link)
    ]
    assert broken == []


def _leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> Iterator[str]:
    """The anchors that GitHub gives to the headings of a page."""
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
