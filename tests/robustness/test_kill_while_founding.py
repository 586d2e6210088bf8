"""kill -9 while a journal is made for the first time: whatever is left behind, the next opening gets on with it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from journal import Journal, verify
from journal.environment import DRAFT
from journal.errors import NotAJournal

# From the appearance of its lock, making a journal takes this long.
MAKING = 0.002
SCRIPT = """
import sys
from pathlib import Path
from journal import Journal
for line in sys.stdin:
    Journal.open(Path(line.strip())).close()
    print("made", flush=True)
"""


def killed_while_making(path: Path, chance: random.Random) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        # The first one takes the imports out of the way.
        for folder in (path / "warm", path / "killed"):
            child.stdin.write(f"{folder}\n")
            child.stdin.flush()
            if folder.name == "warm":
                assert child.stdout.readline() == "made\n"
        moment = time.perf_counter() + chance.random() * MAKING
        while time.perf_counter() < moment:
            pass
        os.kill(child.pid, signal.SIGKILL)


@pytest.mark.parametrize("seed", range(3))
def test_killed_while_founding(tmp_path: Path, seed: int) -> None:
    killed_while_making(tmp_path, random.Random(seed))
    open_whole(tmp_path / "killed")


@pytest.mark.slow
def test_killed_while_founding_many_times(tmp_path: Path) -> None:
    for seed in range(200):
        folder = tmp_path / str(seed)
        killed_while_making(folder, random.Random(seed))
        open_whole(folder / "killed")


@pytest.mark.parametrize("left", [b"", b"half of a first page"])
def test_a_draft_that_was_left_behind_is_made_again(tmp_path: Path, left: bytes) -> None:
    (tmp_path / DRAFT).write_bytes(left)
    open_whole(tmp_path)
    assert not (tmp_path / DRAFT).exists()


def test_an_emptied_journal_is_still_told(tmp_path: Path) -> None:
    open_whole(tmp_path)
    (tmp_path / "data.mdb").write_bytes(b"")
    with pytest.raises(NotAJournal, match="is empty"):
        Journal.open(tmp_path)


def open_whole(path: Path) -> None:
    journal = Journal.open(path)
    with journal.read() as view:
        assert verify.verify(view).sound
    journal.close()
