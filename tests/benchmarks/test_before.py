"""A run beside an earlier commit: which one, its source, and what counts as slower."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from benchmarks.reports.comparison import compared
from benchmarks.reports.measurement import Measurement
from benchmarks.run import main
from benchmarks.servers.release import LAST, NoSuchCommit, earlier, write_source


def cpu(*rounds: float) -> dict[str, Measurement]:
    middle = sorted(rounds)[len(rounds) // 2]
    return {"get": Measurement("get", {"rate": 1.0, "cpu_us": middle}, {"cpu_us_of_rounds": list(rounds)})}


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        ((100, 101, 102), (120, 121, 122), "slower"),
        ((100, 101, 130), (120, 121, 122), ""),  # a round before took as long
        ((100, 101, 102), (108, 109, 110), ""),
        ((120, 121, 122), (100, 101, 102), "faster"),
    ],
)
def test_slower_is_more_than_a_tenth_in_every_round(
    before: tuple[float, ...], now: tuple[float, ...], verdict: str
) -> None:
    (found,) = compared(cpu(*before), cpu(*now))
    assert (found.figure, found.verdict) == ("cpu_us", verdict)


def test_figures_that_have_no_rounds_and_workloads_of_one_side() -> None:
    before = {
        "memory-idle": Measurement("memory-idle", {"mb": 50.0}),
        "gone": Measurement("gone", {"mb": 1.0}),
    }
    now = {"memory-idle": Measurement("memory-idle", {"mb": 60.0}), "new": Measurement("new", {"mb": 1.0})}
    (found,) = compared(before, now)
    assert (found.work, found.ratio, found.verdict) == ("memory-idle", 1.2, "slower")


def test_last_version_is_that_of_the_changelog() -> None:
    last = earlier(LAST)
    assert last.name[0].isdigit() and len(last.commit) >= 8
    assert earlier("abc").commit == "abc"


def test_source_of_a_commit_is_what_runs(tmp_path: Path) -> None:
    command = shlex.split(write_source("HEAD", tmp_path / "source"))
    where = [*command[:-2], "-c", "import rewound; print(rewound.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=True, timeout=120).stdout.strip()
    assert Path(found).is_relative_to(tmp_path / "source")


def test_unknown_commit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoSuchCommit, match="git has no source of 'nothing'"):
        write_source("nothing", tmp_path / "source")
    places = ["--out", str(tmp_path), "--scratch", str(tmp_path / "scratch")]
    assert main(["--quick", "--only", "get", "--before", "nothing", *places]) == 2
    assert "--before: git has no source of 'nothing'" in capsys.readouterr().err


@pytest.mark.slow
def test_run_beside_this_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scratch = tmp_path / "scratch"
    places = ["--out", str(tmp_path), "--scratch", str(scratch)]
    assert main(["--quick", "--only", "get,memory-idle", "--before", "HEAD", *places]) == 0
    document = json.loads((tmp_path / "latest.json").read_text())
    assert [one["name"] for one in document["subjects"]] == ["rewound", "rewound HEAD"]
    assert {one["work"] for one in document["compared"]} == {"get", "memory-idle"}
    assert "Beside rewound HEAD in this run" in capsys.readouterr().out
    assert list(scratch.iterdir()) == []
