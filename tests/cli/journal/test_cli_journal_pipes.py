"""A command whose output pipe is closed exits without an error text."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.gateway.journal_commands import put, write_history
from tests.no_progress import COMMAND


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    # More than a pipe holds, also when it is compressed, so that the writer is still at it when the reader ends.
    filler = Random(1)
    write_history(tmp_path, [put(f"n{at}", {"filler": filler.randbytes(2000).hex()}) for at in range(200)])
    return tmp_path


@pytest.mark.parametrize("words", [["log", "-o", "json"], ["state", "-o", "yaml"], ["export", "-"]])
def test_closed_pipe_exits_141(folder: Path, words: list[str]) -> None:
    running = subprocess.Popen(
        [*COMMAND, "journal", *words, f"--data-dir={folder}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.read(10)
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(60) == 141
    running.stderr.close()


def test_pipe_closed_from_the_start_exits_141(folder: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, "journal", "stats", f"--data-dir={folder}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(60) == 141
    running.stderr.close()
