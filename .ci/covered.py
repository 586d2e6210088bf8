"""Fails if the tests ran too little of `actors` and `journal`, or too little of what the last commits changed there.

    python3 .ci/covered.py COVERAGE.json [--base REVISION] [--folder CLONE]

`make coverage` calls it, with the file that slipcover wrote. Changed are lines that differ from the merge base with
origin/main, or, in a clone of main itself, from the commit before the last 200. Fewer than 500 of them decide nothing:
a few lines that only tests/api runs would fail it. A clone without older commits (depth 1) has nothing to compare with:
only the whole is checked then.

The other folders are not measured. Their tests start servers, in this process and in others where nothing measures;
to run them a second time would take `.ci/run` longer than it may. Only the standard library.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MEASURED = ("rewound/actors/", "rewound/journal/")
WHOLE = 90.0  # percent of all lines; 91.5 on 18 November 2026
CHANGED = 85.0  # percent of the changed lines; less than the whole, because tests/api runs some for them
COMMITS = 200  # of main that count as changed in a clone of main
ENOUGH = 500  # changed lines: fewer are printed, and decide nothing
_FILE = re.compile(r"\+\+\+ b/(.+)")
_PART = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")

Lines = dict[str, set[int]]  # by file


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--base", help="the commit that changes are compared with")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent.parent)
    given = parser.parse_args()
    files = json.loads(given.measured.read_text())["files"]
    files = {name: file for name, file in files.items() if name.startswith(MEASURED)}
    executed = {name: set(file["executed_lines"]) for name, file in files.items()}
    missing = {name: set(file["missing_lines"]) for name, file in files.items()}
    passed = check("In all", executed, missing, WHOLE)
    base = given.base or compared_with(given.folder)
    if base is None:
        print("Changed lines: this clone has no older commit to compare with.")
        return 0 if passed else 1
    changed = changed_lines(given.folder, base)
    not_covered = both(changed, missing)
    for name in sorted(not_covered):
        print(f"{name}: no test runs {ranges(not_covered[name])}")
    covered = both(changed, executed)
    floor = CHANGED if count(covered) + count(not_covered) >= ENOUGH else 0.0
    return 0 if check(f"Changed since {base[:12]}", covered, not_covered, floor) and passed else 1


def check(what: str, executed: Lines, missing: Lines, floor: float) -> bool:
    covered, lines = count(executed), count(executed) + count(missing)
    percent = 100 * covered / lines if lines else 100.0
    verdict = "" if percent >= floor else f": FAILED, at least {floor:g}% must be"
    print(f"{what}, {percent:.1f}% of {lines} lines are covered{verdict}")
    return percent >= floor


def compared_with(folder: Path) -> str | None:
    head = git(folder, "rev-parse", "HEAD")
    base = git(folder, "merge-base", "HEAD", "origin/main")
    if base and base != head:
        return base
    commits = git(folder, "rev-list", "--first-parent", f"--max-count={COMMITS + 1}", "HEAD").split()
    return commits[-1] if len(commits) > 1 else None


def changed_lines(folder: Path, base: str) -> Lines:
    """Lines of today's files that are new or different since `base`; a moved file has only those that changed too."""
    changed: Lines = {}
    name = ""
    for line in git(folder, "diff", "--unified=0", "--find-renames", base, "--", "*.py").splitlines():
        if found := _FILE.fullmatch(line):
            name = found[1]
        elif found := _PART.match(line):
            start, size = int(found[1]), int(found[2] or 1)
            changed.setdefault(name, set()).update(range(start, start + size))
    return changed


def git(folder: Path, *command: str) -> str:
    """What git prints; "" if it fails, as it does outside of a repository."""
    try:
        run = subprocess.run(
            ("git", "-C", str(folder), *command), capture_output=True, text=True, timeout=120, check=False
        )
    except FileNotFoundError:
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def both(one: Lines, other: Lines) -> Lines:
    found = {name: lines & other.get(name, set()) for name, lines in one.items()}
    return {name: lines for name, lines in found.items() if lines}


def count(lines: Lines) -> int:
    return sum(map(len, lines.values()))


def ranges(lines: set[int]) -> str:
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in _runs(lines))


def _runs(lines: set[int]) -> Iterator[tuple[int, int]]:
    first, last = 0, -1
    for line in sorted(lines):
        if line != last + 1:
            if first:
                yield first, last
            first = line
        last = line
    if first:
        yield first, last


if __name__ == "__main__":
    sys.exit(main())
