"""Workers that are handed whole files run each test once, and report files that fail as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FILES = {
    "pytest.ini": "[pytest]\naddopts = --disable-plugin-autoload -p xdist.plugin\n",
    "test_passes.py": "def test_one(): pass\ndef test_two(): pass\n",
    "test_fails.py": "def test_fails(): assert False\ndef test_passes_afterwards(): pass\n",
    "test_marks.py": "import pytest\n@pytest.mark.filterwarnings\ndef test_left_out(): pass\ndef test_stays(): pass\n",
    "test_imports_nothing.py": "import there_is_no_such_module\n",
    "test_process_ends.py": "import os\ndef test_ends_the_process(): os._exit(1)\n",
}


def test_every_test_of_a_file_is_reported(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    options = ["-v", "-n", "1", "-p", "tests.whole_files", "-m", "not filterwarnings"]
    command = [sys.executable, "-m", "pytest", *options]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert sorted(re.findall(r"\[gw.+\] (PASSED|FAILED) (\S+)", ran.stdout)) == [
        ("FAILED", "test_fails.py::test_fails"),
        ("FAILED", "test_process_ends::py"),
        ("PASSED", "test_fails.py::test_passes_afterwards"),
        ("PASSED", "test_marks.py::test_stays"),
        ("PASSED", "test_passes.py::test_one"),
        ("PASSED", "test_passes.py::test_two"),
    ]
    assert "ERROR test_imports_nothing.py" in ran.stdout
    assert "crashed while running 'test_process_ends.py'" in ran.stdout
