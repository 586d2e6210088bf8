"""Windows is refused in a sentence; macOS lacks a few functions of Linux, each of which has a fallback."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rewound.server.process import OPEN_MAX, raise_file_limit

_ON_WINDOWS = """
import sys
sys.platform = "win32"
sys.modules["fcntl"] = sys.modules["resource"] = None  # Windows has neither: an import of them fails
"""
_COMMAND = "from rewound.cli.main import main; sys.exit(main(['serve']))"
_API = "import rewound; rewound.start"
_PLUGIN = "import rewound.testing.fixture.plugin"


def test_windows_is_refused_in_a_sentence() -> None:
    command = _run(_COMMAND)
    assert command.returncode == 2
    assert (
        command.stderr.startswith("rewound: Rewound does not run on Windows: ") and "WSL 2" in command.stderr
    )
    assert command.stderr.count("\n") == 1
    api = _run(_API)
    assert api.stderr.splitlines()[-1].startswith("ImportError: Rewound does not run on Windows: ")


def test_plugin_disturbs_no_other_tests_on_windows() -> None:
    assert _run(_PLUGIN).stderr == ""


def _run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _ON_WINDOWS + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


# Gives this process what macOS has, writes, and reads again after the journal was closed.
_WITHOUT_FUNCTIONS_OF_LINUX = """
import os, sys
del os.fdatasync, os.posix_fallocate
sys.platform = "darwin"
from pathlib import Path
from rewound.journal import Journal
for _ in range(2):
    journal = Journal.open(Path(sys.argv[1]))
    journal.sync()
    journal.close()
"""


def test_journal_needs_no_function_that_only_linux_has(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WITHOUT_FUNCTIONS_OF_LINUX, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.stderr == ""


def test_limit_of_open_files_is_raised_as_far_as_macos_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[tuple[int, int]] = []

    def set_limit(_: int, limits: tuple[int, int]) -> None:
        if limits[0] == resource.RLIM_INFINITY:
            raise ValueError("current limit exceeds maximum limit")
        chosen.append(limits)

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    raise_file_limit()
    assert chosen == [(OPEN_MAX, resource.RLIM_INFINITY)]
