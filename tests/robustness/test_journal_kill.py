"""SIGKILL at every step of an append: acknowledged events survive, partial ones do not, and the journal verifies."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rewound.journal import Event, Journal, failpoints, retention, snapshot_writer
from rewound.journal.repair import verify

STEPS = ["begun", "events-written", "state-written", "before-commit", "after-commit"]
NAMES = 40
# Together with the two hundred kills of a server under load (`test_two_hundred_kills`), a thousand.
KILLS, KILLS_OF_ONE_JOURNAL = 800, 100
TIMEOUT = 1800  # of a hundred kills, on a busy machine


class History:
    """An endless sequence of events, determined by a seed and the first offset, so that two processes agree on it."""

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


def write_forever(path: str, seed: int) -> None:
    """The process that gets killed. It prints the head after every append."""
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
    script = (
        f"from tests.robustness.test_journal_kill import write_forever; write_forever({str(path)!r}, {seed})"
    )
    environment = {**os.environ, failpoints.VARIABLE: failpoint}
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment, text=True
    )


def verified_head(path: Path, acknowledged: int) -> int:
    """Open and verify the journal of the killed process; returns its head."""
    journal = Journal.open(path)
    with journal.read() as view:
        assert view.head >= acknowledged
        assert verify.verify(view).differences == []
        head = view.head
    journal.close()
    return head


def expected_batches(path: Path, seed: int, count: int) -> list[list[Event]]:
    """The batches that a process started on this folder will append first."""
    if not path.exists():
        Journal.open(path).close()
    journal = Journal.open(path)
    history = History(journal, seed)
    batches = [history.batch() for _ in range(count)]
    journal.close()
    return batches


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("passage", [1, 12])
def test_acknowledged_events_survive_kill_at_append_step(tmp_path: Path, step: str, passage: int) -> None:
    path = tmp_path / "journal"
    batches = expected_batches(path, 1, passage)
    with start(path, 1, f"journal.append:{step}:{passage}") as killed:
        assert killed.stdout is not None
        printed = [int(line) for line in killed.stdout]
    assert killed.returncode == -signal.SIGKILL
    # When the map grows, an append runs its steps twice, so there may be fewer appends than passages.
    assert printed == [batch[-1].offset for batch in batches[: len(printed)]]
    durable = len(printed) + (step == "after-commit")
    assert verified_head(path, printed[-1] if printed else 0) == (
        batches[durable - 1][-1].offset if durable else 0
    )
    journal = Journal.open(path)
    with journal.read() as view:
        for event in (event for batch in batches[:durable] for event in batch if event.offset > view.floor):
            assert view.event(event.offset) == event
    journal.close()


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("series", range(KILLS // KILLS_OF_ONE_JOURNAL))
def test_journal_survives_eight_hundred_kills(tmp_path: Path, series: int) -> None:
    """Journals whose process is killed repeatedly: at a failpoint, or from outside at any time."""
    rng = random.Random(7 + series)
    head = 0
    for seed in range(KILLS_OF_ONE_JOURNAL):
        step = rng.choice([*STEPS, ""])
        failpoint = f"journal.append:{step}:{rng.randrange(1, 60)}" if step else ""
        with start(tmp_path, seed, failpoint) as killed:
            assert killed.stdout is not None
            printed = head
            for line in killed.stdout:
                printed = int(line)
                if not step and rng.random() < 0.02:
                    killed.kill()
        assert killed.returncode == -signal.SIGKILL
        newest = verified_head(tmp_path, printed)
        assert newest >= head
        head = newest
