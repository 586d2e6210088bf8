"""SIGKILL while a new journal is created: the next opening succeeds, whatever files are left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rewound.journal import Journal
from rewound.journal.errors import NotAJournal
from rewound.journal.files.opening import DRAFT
from rewound.journal.repair import verify

TIMEOUT = 900  # of all kills, on a busy machine
SCRIPT = """
import sys
from pathlib import Path
from rewound.journal import Journal
for line in sys.stdin:
    Journal.open(Path(line.strip())).close()
    print("created", flush=True)
"""


def kill_while_creating(path: Path, rng: random.Random) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        # The first creation includes the imports; the second one shows how long a creation takes.
        for name in ("warm", "measured", "killed"):
            begun = time.perf_counter()
            child.stdin.write(f"{path / name}\n")
            child.stdin.flush()
            if name != "killed":
                assert child.stdout.readline() == "created\n"
                seconds = time.perf_counter() - begun
        moment = begun + rng.random() * seconds
        while time.perf_counter() < moment:
            pass
        os.kill(child.pid, signal.SIGKILL)


@pytest.mark.parametrize("seed", range(3))
def test_journal_opens_after_kill_while_creating(tmp_path: Path, seed: int) -> None:
    kill_while_creating(tmp_path, random.Random(seed))
    open_and_verify(tmp_path / "killed")


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
def test_journal_opens_after_many_kills_while_creating(tmp_path: Path) -> None:
    for seed in range(200):
        folder = tmp_path / str(seed)
        kill_while_creating(folder, random.Random(seed))
        open_and_verify(folder / "killed")


@pytest.mark.parametrize("left", [b"", b"half of a first page"])
def test_leftover_draft_file_is_replaced(tmp_path: Path, left: bytes) -> None:
    (tmp_path / DRAFT).write_bytes(left)
    open_and_verify(tmp_path)
    assert not (tmp_path / DRAFT).exists()


def test_truncated_journal_file_is_refused(tmp_path: Path) -> None:
    open_and_verify(tmp_path)
    (tmp_path / "data.mdb").write_bytes(b"")
    with pytest.raises(NotAJournal, match="is empty"):
        Journal.open(tmp_path)


def open_and_verify(path: Path) -> None:
    journal = Journal.open(path)
    with journal.read() as view:
        assert verify.verify(view).sound
    journal.close()
