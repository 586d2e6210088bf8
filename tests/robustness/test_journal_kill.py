"""kill -9 at every step of an append: what was acknowledged is there, nothing half done is, all of it verifies."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from journal import Event, Journal, failpoints, retention, snapshot_writer, verify

STEPS = ["begun", "events-written", "state-written", "before-commit", "after-commit"]
NAMES = 40


class History:
    """An endless history that two processes can tell alike: a function of its seed and the offset it begins at."""

    def __init__(self, journal: Journal, seed: int) -> None:
        self._random = random.Random(seed + journal.head)
        self._offset = journal.head
        with journal.read() as view:
            self._state = {name: row.offset for _, name, row in view.rows(1)}

    def batch(self) -> list[Event]:
        return [self._event() for _ in range(self._random.choice([1, 1, 2, 16]))]

    def _event(self) -> Event:
        self._offset += 1
        name = f"n{self._random.randrange(NAMES)}"
        previous = self._state.pop(name, 0)
        removed = bool(previous) and self._random.random() < 0.3
        if not removed:
            self._state[name] = self._offset
        body = b'{"resourceVersion":"%d","filler":"%b"}' % (self._offset, b"x" * self._random.randrange(3000))
        return Event(
            self._offset, 1, "update", "default", name, previous, removed, self._offset, "u", "m", b"f", body
        )


def write_for_ever(path: str, seed: int) -> None:
    """The process that gets killed. It says every offset that it was told is durable."""
    journal = Journal.open(Path(path), map_size=256 << 10)
    journal.register_type("things")
    history = History(journal, seed)
    rounds = 0
    while True:
        journal.append(history.batch())
        sys.stdout.write(f"{journal.head}\n")
        sys.stdout.flush()
        rounds += 1
        if rounds % 5 == 0:
            retention.advance(journal, journal.head - 100, 20)
        if rounds % 20 == 0:
            for _ in snapshot_writer.take(journal, chunk_rows=10):
                pass


def start(path: Path, seed: int, failpoint: str = "") -> subprocess.Popen[str]:
    script = f"from tests.robustness.test_journal_kill import write_for_ever; write_for_ever({str(path)!r}, {seed})"
    surroundings = {**os.environ, failpoints.VARIABLE: failpoint}
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=surroundings, text=True
    )


def survive(path: Path, acknowledged: int) -> int:
    """Open what the killed process left; its head."""
    journal = Journal.open(path)
    with journal.read() as view:
        assert view.head >= acknowledged
        assert verify.verify(view).differences == []
        head = view.head
    journal.close()
    return head


def expected_batches(path: Path, seed: int, count: int) -> list[list[Event]]:
    """What a process that starts on this folder will append first."""
    if not path.exists():
        Journal.open(path).close()
    journal = Journal.open(path)
    history = History(journal, seed)
    batches = [history.batch() for _ in range(count)]
    journal.close()
    return batches


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("passage", [1, 12])
def test_killed_at_a_step_of_an_append(tmp_path: Path, step: str, passage: int) -> None:
    path = tmp_path / "journal"
    batches = expected_batches(path, 1, passage)
    with start(path, 1, f"journal.append:{step}:{passage}") as killed:
        assert killed.stdout is not None
        told = [int(line) for line in killed.stdout]
    assert killed.returncode == -signal.SIGKILL
    # An append passes a step twice when the map had to grow, so this may be less than the passages allow.
    assert told == [batch[-1].offset for batch in batches[: len(told)]]
    durable = len(told) + (step == "after-commit")
    assert survive(path, told[-1] if told else 0) == (batches[durable - 1][-1].offset if durable else 0)
    journal = Journal.open(path)
    with journal.read() as view:
        for event in (event for batch in batches[:durable] for event in batch if event.offset > view.floor):
            assert view.event(event.offset) == event
    journal.close()


@pytest.mark.slow
def test_killed_two_hundred_times(tmp_path: Path) -> None:
    """One journal, killed again and again: at a step, or from outside at any moment of its work."""
    chance = random.Random(7)
    head = 0
    for seed in range(200):
        step = chance.choice([*STEPS, ""])
        failpoint = f"journal.append:{step}:{chance.randrange(1, 60)}" if step else ""
        with start(tmp_path, seed, failpoint) as killed:
            assert killed.stdout is not None
            told = head
            for line in killed.stdout:
                told = int(line)
                if not step and chance.random() < 0.02:
                    killed.kill()
        assert killed.returncode == -signal.SIGKILL
        newest = survive(tmp_path, told)
        assert newest >= head
        head = newest
