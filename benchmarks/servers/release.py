"""The source of an earlier commit, for a server that is measured beside that of this checkout."""

from __future__ import annotations

import compileall
import io
import re
import shlex
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.options import ROOT

LAST = "release"  # the commit of the newest version in CHANGELOG.md
_VERSION = re.compile(r"^## (\d\S*)[^`#]*Up to `([0-9a-f]+)`", re.MULTILINE)


class NoSuchCommit(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Earlier:
    name: str  # "0.11.0", or the commit
    commit: str


def earlier(given: str) -> Earlier:
    """What `--before` names."""
    if given != LAST:
        return Earlier(given, given)
    found = _VERSION.search((ROOT / "CHANGELOG.md").read_text())
    if found is None:
        raise NoSuchCommit("--before: CHANGELOG.md names no version with its commit; name a commit")
    return Earlier(found[1], found[2])


def write_source(commit: str, folder: Path) -> str:
    """Write the source of a commit into a folder; returns the command that runs it, with the packages of this one."""
    archive = subprocess.run(["git", "archive", commit, "rewound"], cwd=ROOT, capture_output=True)
    if archive.returncode:
        why = archive.stderr.decode(errors="replace").strip()
        raise NoSuchCommit(
            f"--before: git has no source of {commit!r} ({why}); fetch it, or name another commit"
        )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as source:
        source.extractall(folder, filter="data")
    compileall.compile_dir(folder, quiet=1)  # as an installed one is: a start would measure the compiler
    # The folder comes before this checkout, also in processes that the server starts.
    places = "PYTHONSAFEPATH=1", f"PYTHONPATH={folder}"
    return shlex.join(["env", *places, sys.executable, "-m", "rewound"])
