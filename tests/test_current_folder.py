"""Tests run in an empty folder: none depends on what `make run` left in the clone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.current_folder import ROOT, EmptyFolder


def test_current_folder_is_empty_and_children_find_our_packages() -> None:
    assert os.listdir() == []
    program = "import os, rewound.gateway, tests; print(os.listdir(), rewound.gateway.__path__[0])"
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    assert found.stdout == f"[] {ROOT / 'rewound' / 'gateway'}\n"


def test_test_that_leaves_a_file_fails_and_the_next_does_not_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Path.cwd()
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    folder = EmptyFolder()
    folder.check()
    folder.enter()
    try:
        assert os.environ["PYTHONPATH"] == f"{ROOT}{os.pathsep}elsewhere"
        Path("rewound-data").mkdir()
        Path("rewound-data", "admin.kubeconfig").touch()
        Path("dangling").symlink_to("nowhere")
        with pytest.raises(AssertionError, match="current folder: dangling, rewound-data; use tmp_path"):
            folder.check()
        folder.check()
    finally:
        folder.leave()
    assert Path.cwd() == before
