"""Temporary files of tests are in memory, where the machine has room for them: most tests are not about durability.

On a disk, a test with `tmp_path` waits for each fsync of its journal, and pytest takes seconds to delete the files of
older runs. TMPDIR takes precedence.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 2**30  # bytes; in containers it often has 64 MiB, and LMDB ends the process if a page finds no room


def keep_temporary_files_in_memory() -> None:
    """In this process and those that it starts."""
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # read TMPDIR again
