"""The measurements that docs/decisions cite can be run, and every page names the command that it cites."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from benchmarks.decisions.measure import Effort
from tests.cases import cases

ROOT = Path(__file__).parent.parent.parent
PAGES = ROOT / "docs" / "decisions"
SCRIPTS = ROOT / "benchmarks" / "decisions"
# `connections.http1`, ...: the modules beside the topics' folders, and those without `main`, are what scripts share.
MEASUREMENTS = sorted(
    f"{path.parent.name}.{path.stem}" for path in SCRIPTS.glob("*/*.py") if "def main(" in path.read_text()
)


def test_measurements_are_found() -> None:
    assert {"connections.http2", "kinds.defaults", "bodies.writes"} <= set(MEASUREMENTS)


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_measurement_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "bodies.json_patch":
        pytest.importorskip("jsonpatch")
    importlib.import_module(f"benchmarks.decisions.{name}").main(Effort(quick=True))
    assert " x\n" in capsys.readouterr().out


@cases("name", MEASUREMENTS)
def test_page_names_its_measurement(name: str) -> None:
    script = SCRIPTS / f"{name.replace('.', '/')}.py"
    page = script.read_text().splitlines()[0].partition(":")[0].strip('"')
    assert f"python -m benchmarks.decisions.{name}" in (ROOT / page).read_text()
