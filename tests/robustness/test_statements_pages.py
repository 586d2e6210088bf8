"""Every statement about access and admission (STATEMENTS.md beside their tests) names a test or recording that
exists.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from fnmatch import filter as matching
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDINGS = frozenset((ROOT / "tests" / "conformance" / "passing.txt").read_text().split())

_ROW = re.compile(r"^\| (?P<number>\d+) \| (?P<statement>.+) \| (?P<proof>.*) \|$", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Page:
    folder: str
    statements: int
    # Statements about other programs: node agents, the scheduler, provisioners, controllers of workloads.
    elsewhere: frozenset[int] = frozenset()

    def proofs(self) -> dict[int, list[str]]:
        text = (ROOT / self.folder / "STATEMENTS.md").read_text()
        return {int(row["number"]): _NAME.findall(row["proof"]) for row in _ROW.finditer(text)}


ACCESS = Page("tests/actors/access", 211)
ADMISSION = Page(
    "tests/actors/admission",
    326,
    elsewhere=frozenset({114, 122, 139, 154, 172, 174, 184, 187}),
)
each_page = pytest.mark.parametrize("page", [ACCESS, ADMISSION], ids=lambda page: page.folder)


@each_page
def test_every_statement_is_listed(page: Page) -> None:
    assert sorted(page.proofs()) == list(range(1, page.statements + 1))


@each_page
def test_every_statement_has_proofs_that_exist(page: Page) -> None:
    missing = {
        number: names or "no proof"
        for number, names in page.proofs().items()
        if not all(map(_exists, names)) or (not names and number not in page.elsewhere)
    }
    assert not missing


def _exists(proof: str) -> bool:
    """A recording (or several: `admission/podsecurity-*.json`), a file or folder of tests, or one test in a file."""
    if proof.endswith(".json"):
        return bool(matching(RECORDINGS, proof))
    file, _, name = proof.partition("::")
    return name in _functions(ROOT / file) if name else (ROOT / file).exists()


@cache
def _functions(file: Path) -> frozenset[str]:
    if not file.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
