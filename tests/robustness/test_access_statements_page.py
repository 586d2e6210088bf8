"""Every statement in docs/access-statements.md names a proof, and the proof exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "access-statements.md"
RECORDINGS = frozenset((ROOT / "tests" / "conformance" / "passing.txt").read_text().split())
STATEMENTS = 211

_ROW = re.compile(r"^\| (?P<number>\d+) \| (?P<statement>.+) \| (?P<proof>.*) \|$", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")


def test_every_statement_is_listed() -> None:
    assert sorted(_proofs()) == list(range(1, STATEMENTS + 1))


def test_every_statement_has_proofs_that_exist() -> None:
    missing = {
        number: names or "no proof"
        for number, names in _proofs().items()
        if not names or not all(map(_exists, names))
    }
    assert not missing


def _proofs() -> dict[int, list[str]]:
    return {int(row["number"]): _NAME.findall(row["proof"]) for row in _ROW.finditer(PAGE.read_text())}


def _exists(proof: str) -> bool:
    if proof.endswith(".json"):
        return proof in RECORDINGS
    file, _, name = proof.partition("::")
    return name in _functions(ROOT / file)


@cache
def _functions(file: Path) -> frozenset[str]:
    if not file.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
