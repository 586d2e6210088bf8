"""Runs the tests in an empty folder, so that none depends on what a user left in the clone.

`make run` leaves `rewound-data` there, and commands without `--data-dir` or `--kubeconfig` look for it in the current
folder. Every process that collects tests enters an empty folder before the first one runs. A test that leaves a file
in it fails: the next test would find the file.

Rejected: a fixture for the tests that start commands, because nobody notices a test that lacks it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


class EmptyFolder:
    def __init__(self) -> None:
        self._before: Path | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def enter(self) -> None:
        """Let processes that a test starts import our packages and the tests, although their folder is empty."""
        self._before = Path.cwd()
        self._folder = tempfile.TemporaryDirectory(prefix="rewound-tests-")
        given = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{given}" if given else str(ROOT)
        os.chdir(self._folder.name)

    def check(self) -> None:
        """Fail if the test left a file in the folder. Call it after each test."""
        if self._folder is None:
            return
        left = sorted(os.listdir(self._folder.name))
        for name in left:
            path = Path(self._folder.name, name)
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        assert left == [], f"the test left files in the current folder: {', '.join(left)}; use tmp_path"

    def leave(self) -> None:
        if self._folder is not None and self._before is not None:
            os.chdir(self._before)
            self._folder.cleanup()
            self._folder = None
