"""Power loss: a disk with any part of what was written since the last fsync still has everything acknowledged.

LMDB writes the pages of a commit, waits until they are durable, then writes one meta page, and waits again. So after
a power loss the file has the state before the commit with any of the commit's sectors and the old meta page, or all
of them and the new one. The identity file is written after that without waiting: it may be older. The test records
the file after every commit, and builds such states from each pair of consecutive files.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from rewound.journal import Journal
from rewound.journal.files import identity
from rewound.journal.files.data_file import DATA
from rewound.journal.repair import verify
from tests.journal.model import ram
from tests.robustness.sample_journal import TYPES, Sample, make_sample

PAGE, SECTOR = 4096, 512
META = 2 * PAGE
SHORT, LONG = 30, 3000


@dataclass(frozen=True)
class Durable:
    """The files after a commit was acknowledged."""

    data: bytes
    identity: bytes
    transaction: int
    head: int
    floor: int


def read_durable(journal: Journal) -> Durable:
    with journal.read() as view:
        head, floor = view.head, view.floor
    data, recorded = (journal.path / DATA).read_bytes(), (journal.path / identity.FILE).read_bytes()
    return Durable(data, recorded, journal.statistics()["transactions"], head, floor)


@pytest.fixture(scope="module")
def recorded() -> Iterator[tuple[Sample, list[Durable]]]:
    states: list[Durable] = []
    with tempfile.TemporaryDirectory(dir=ram()) as folder:
        sample = make_sample(Path(folder), 5, 40, lambda journal: states.append(read_durable(journal)))
        yield sample, states


def interrupted(before: Durable, after: Durable, rng: random.Random) -> bytes:
    """The file before a commit, with some of the sectors that the commit writes."""
    length = rng.choice([len(before.data), len(after.data)])
    data = bytearray(before.data.ljust(length, b"\0"))
    share = rng.random()
    for start in range(META, length, SECTOR):
        sector = after.data[start : start + SECTOR]
        if sector != data[start : start + SECTOR] and rng.random() < share:
            data[start : start + len(sector)] = sector
    return bytes(data)


def check(sample: Sample, folder: Path, data: bytes, recorded: bytes, expected: Durable) -> None:
    folder.mkdir()
    (folder / DATA).write_bytes(data)
    (folder / identity.FILE).write_bytes(recorded)
    journal = Journal.open(folder)
    with journal.read() as view:
        assert (view.head, view.floor) == (expected.head, expected.floor)
        assert verify.verify(view).differences == []
        rows = {
            (number, space, name): row
            for number in range(1, len(TYPES) + 1)
            for space, name, row in view.rows(number)
        }
    assert rows == sample.state(expected.head)
    journal.probe()  # writes into the pages that the interrupted commit had begun to use
    journal.close()


def lose_power(sample: Sample, states: list[Durable], times: int) -> int:
    """Build and check states of a disk; returns in how many of them the commit had not happened."""
    pairs = [
        (before, after) for before, after in pairwise(states) if after.transaction == before.transaction + 1
    ]
    assert len(pairs) > len(states) // 2
    undone = 0
    for number in range(times):
        rng = random.Random(number)
        before, after = pairs[number % len(pairs)]
        older = rng.choice(states[: states.index(before) + 1])
        with tempfile.TemporaryDirectory(dir=ram()) as name:
            if number % 3:
                undone += 1
                data = interrupted(before, after, rng)
                check(sample, Path(name) / "j", data, rng.choice([before, older]).identity, before)
            else:
                witness = rng.choice([before, after, older])
                check(sample, Path(name) / "j", after.data, witness.identity, after)
    return undone


def test_power_loss_at_any_write(recorded: tuple[Sample, list[Durable]]) -> None:
    assert 0 < lose_power(*recorded, SHORT) < SHORT


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_power_loss_three_thousand_times(recorded: tuple[Sample, list[Durable]]) -> None:
    print(f"{lose_power(*recorded, LONG)} of {LONG} before the commit")
