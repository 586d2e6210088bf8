"""Flipped bits: a folder either serves exactly what was written or says why not, and can be recovered.

The short version flips some bits of the meta pages and of the rest; the long version all of the meta pages and ten
thousand others (`make robustness`). Each test prints its totals.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewound.journal import Journal, keys
from rewound.journal.errors import JournalError
from rewound.journal.repair.recover import recover
from tests.journal.model import ram
from tests.robustness.damaged_copies import Flip, flipped, meta_flips, random_flips, read_damaged
from tests.robustness.sample_journal import TYPES, Sample, make_sample

SHORT = 40
LONG, BATCH = 10_000, 500
RECOVERED, RECOVERED_IN_A_BATCH = 4, 25
TIMEOUT = 3600  # of a batch, on a busy machine


@pytest.fixture(scope="module")
def sample() -> Iterator[Sample]:
    with tempfile.TemporaryDirectory(dir=ram()) as folder:
        yield make_sample(Path(folder))


@pytest.fixture(scope="module")
def small_sample() -> Iterator[Sample]:
    with tempfile.TemporaryDirectory(dir=ram()) as folder:
        yield make_sample(Path(folder), commits=12)


def check(sample: Sample, flips: list[Flip]) -> Counter[str]:
    tally = read_damaged(sample, flips)
    print(dict(tally.counts))
    assert tally.failures == []
    assert tally.counts.total() == len(flips)
    return tally.counts


def check_recovery(sample: Sample, flip: Flip) -> str:
    """Recover a damaged copy: every object is one that was written, and only what the bit touched is lost."""
    with tempfile.TemporaryDirectory(dir=ram()) as name:
        folder = Path(name)
        sample.write_to(folder / "damaged", flipped(sample, flip))
        try:
            found = recover(folder / "damaged", folder / "new")
        except JournalError as refused:
            return f"refused: {refused}"
        journal = Journal.open(folder / "new")
        with journal.read() as view:
            rows = {
                (number, space, name): row
                for number in range(1, len(TYPES) + 1)
                for space, name, row in view.rows(number)
            }
            kept = [event for event in view.all_events(0) if event.verb != "recover"]
            assert view.head >= sample.head
        journal.close()
    assert found.lost_objects == [], "every object has two copies, and one bit damages one"
    assert rows == sample.live
    assert all(sample.events[event.offset] == event for event in kept)
    assert len(found.lost_events) <= 1
    return "complete" if not found.lost_events else "without an old event"


def check_recoveries(sample: Sample, flips: list[Flip]) -> None:
    outcomes = Counter(check_recovery(sample, flip) for flip in flips)
    print(dict(outcomes))
    assert outcomes.keys() <= {"complete", "without an old event"}


def test_flips_of_the_meta_pages(small_sample: Sample) -> None:
    flips = random.Random(1).sample(meta_flips(), SHORT)
    flips += [
        Flip(page * 4096 + 128, bit) for page in (0, 1) for bit in range(4)
    ]  # the root of the databases
    counts = check(small_sample, flips)
    assert counts["refused"] > SHORT // 2


def test_flips_elsewhere(small_sample: Sample) -> None:
    counts = check(small_sample, random_flips(small_sample, SHORT, seed=1))
    assert counts["refused"] > 0


def test_flips_of_the_key_of_the_newest_event(small_sample: Sample) -> None:
    """The head is read from this key. A journal may have a tail of any length, and it has this event."""
    key = keys.pack_offset(small_sample.head)
    starts = [one.start() for one in re.finditer(re.escape(key), small_sample.data)]
    flips = [
        Flip(start + byte, 0, check_tail=whole)
        for start in starts
        for byte in range(len(key))
        for whole in (True, False)
    ]
    counts = check(small_sample, flips)
    assert counts["refused"] >= 2 * len(key)


def test_recovery_of_flips(small_sample: Sample) -> None:
    rng = random.Random(2)
    check_recoveries(small_sample, rng.sample(meta_flips(), RECOVERED))
    check_recoveries(small_sample, random_flips(small_sample, RECOVERED, seed=3))


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("page", [0, 1])
def test_all_flips_of_a_meta_page(sample: Sample, page: int) -> None:
    flips = [flip for flip in meta_flips() if flip.position // 4096 == page]
    check(sample, flips)
    check_recoveries(sample, flips[page::10])


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("batch", range(LONG // BATCH))
def test_ten_thousand_flips_elsewhere(sample: Sample, batch: int) -> None:
    flips = random_flips(sample, BATCH, seed=100 + batch)
    check(sample, flips)
    check_recoveries(sample, flips[:RECOVERED_IN_A_BATCH])
