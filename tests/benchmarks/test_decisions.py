"""The measurements that docs/decisions cite can be run, and every page names the command that it cites."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from benchmarks.decisions.measure import Effort

ROOT = Path(__file__).parent.parent.parent
PAGES = ROOT / "docs" / "decisions"
SHARED = ("__init__", "measure", "samples", "store", "generated_defaults")
MEASUREMENTS = sorted(
    path.stem for path in (ROOT / "benchmarks" / "decisions").glob("*.py") if path.stem not in SHARED
)


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_measurement_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "json_patch":
        pytest.importorskip("jsonpatch")
    importlib.import_module(f"benchmarks.decisions.{name}").main(Effort(quick=True))
    assert " x\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_page_names_its_measurement(name: str) -> None:
    module = importlib.util.find_spec(f"benchmarks.decisions.{name}")
    assert module is not None and module.origin is not None
    page = Path(module.origin).read_text().splitlines()[0].partition(":")[0].strip('"')
    assert f"python -m benchmarks.decisions.{name}" in (ROOT / page).read_text()
