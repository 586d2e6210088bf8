"""`.ci/covered.py`: which lines changed, which of them no test ran, and when that is too much."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parent.parent / ".ci" / "covered.py"
OLD = "".join(f"line{n}\n" for n in range(1, 5001))
UNMEASURED = {"executed_lines": [], "missing_lines": list(range(1, 10000))}
IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with two commits: the second adds the lines 5001 to 5600, and changes line 1."""
    clone = tmp_path / "clone"
    (clone / "rewound" / "actors").mkdir(parents=True)
    git(clone, "init", "-q")
    commit(clone, OLD)
    commit(clone, OLD.replace("line1\n", "changed\n") + "added\n" * 600)
    return clone


def test_changed_lines_that_no_test_runs_fail_and_are_named(clone: Path) -> None:
    status, printed = check(clone, missing={1, 50, *range(5003, 5103), 5107})
    assert status == 1
    assert "rewound/actors/module.py: no test runs 1, 5003-5102, 5107\n" in printed
    assert re.search(
        r"Changed since \w+, 83.0% of 601 lines are covered: FAILED, at least 85% must be\n", printed
    )
    assert "In all, 98.2% of 5600 lines are covered\n" in printed


def test_few_changed_lines_are_named_and_decide_nothing(clone: Path) -> None:
    commit(clone, (clone / "rewound" / "actors" / "module.py").read_text().replace("line2\n", "changed\n"))
    status, printed = check(clone, "--base", "HEAD~1", missing={2})
    assert status == 0
    assert "no test runs 2\n" in printed and "0.0% of 1 lines are covered\n" in printed


def test_old_lines_may_be_uncovered_until_the_whole_is_too_little(clone: Path) -> None:
    status, printed = check(clone, missing={50, 51})
    assert status == 0 and "100.0% of 601 lines are covered\n" in printed
    status, printed = check(clone, missing=set(range(2, 3000)))
    assert status == 1 and "In all, 46.5% of 5600 lines are covered: FAILED" in printed


def test_renamed_file_has_only_its_changed_lines(clone: Path) -> None:
    git(clone, "mv", "rewound/actors/module.py", "rewound/actors/renamed.py")
    git(clone, *IDENTITY, "commit", "-qm", "rename")
    assert check(clone, "--base", "HEAD~1", name="renamed.py", missing={1, 2, 3})[0] == 0


@pytest.mark.parametrize("history", ["depth 1", "none"])
def test_without_older_commits_only_the_whole_is_checked(clone: Path, tmp_path: Path, history: str) -> None:
    copy = tmp_path / "copy"
    if history == "none":
        copy.mkdir()
    else:
        git(tmp_path, "clone", "-q", "--depth", "1", f"file://{clone}", str(copy))
    status, printed = check(copy, missing={1})
    assert status == 0 and "no older commit to compare with" in printed
    assert check(copy, missing=set(range(2, 3000)))[0] == 1


def check(clone: Path, *more: str, missing: set[int], name: str = "module.py") -> tuple[int, str]:
    file = {"executed_lines": sorted(set(range(1, 5601)) - missing), "missing_lines": sorted(missing)}
    measured = clone.parent / "measured.json"
    measured.write_text(
        json.dumps({"files": {f"rewound/actors/{name}": file, "rewound/cli/module.py": UNMEASURED}})
    )
    command = [sys.executable, CHECK, str(measured), "--folder", str(clone), *more]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not run.stderr
    return run.returncode, run.stdout


def commit(clone: Path, text: str) -> None:
    (clone / "rewound" / "actors" / "module.py").write_text(text)
    git(clone, "add", ".")
    git(clone, *IDENTITY, "commit", "-qm", "change")


def git(folder: Path, *command: str) -> None:
    subprocess.run(("git", "-C", str(folder), *command), check=True, capture_output=True, timeout=120)
