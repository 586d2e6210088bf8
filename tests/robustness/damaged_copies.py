"""Reads damaged copies of a sample journal in child processes, and compares everything with what was written.

    tally = read_damaged(sample, [Flip(position, bit), ...])

A child reads one copy after another and prints the result of each, so that a copy that crashes the process is found:

    refused   the folder was not opened; an error of the journal says why
    damaged   some reads raised an error of the journal, all others were right
    right     everything was right: the bit is not used
    wrong     something was returned that was not written
    died      the process ended
"""

from __future__ import annotations

import json
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rewound.journal import Journal, Row
from rewound.journal.environment import Databases
from rewound.journal.errors import JournalError
from rewound.journal.files.data_file import DATA
from rewound.journal.files.pages import PageFile, leaf_nodes
from rewound.journal.files.structure import audit
from rewound.journal.repair import verify
from rewound.journal.repair.damaged_file import survey
from rewound.journal.tail import check_tail
from rewound.journal.view import View
from tests.journal.model import ram
from tests.robustness.sample_journal import TYPES, Name, Sample

PAGE = 4096
META_BYTES = 152  # of a meta page are used


class Flip(NamedTuple):
    position: int
    bit: int
    # Without it, all events but the newest count as older than the tail of a large journal.
    check_tail: bool = True


class Outcome(NamedTuple):
    flip: Flip
    kind: str
    text: str


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.counts[outcome.kind] += 1
        if outcome.kind in ("wrong", "died"):
            self.failures.append(outcome)


def meta_flips() -> list[Flip]:
    """Every bit of both meta pages."""
    return [
        Flip(page * PAGE + byte, bit) for page in (0, 1) for byte in range(META_BYTES) for bit in range(8)
    ]


def random_flips(sample: Sample, count: int, seed: int) -> list[Flip]:
    """Bits anywhere after the meta pages; every second one in the header, a key or a node of a page in use."""
    rng = random.Random(seed)
    structure = _structure(sample)
    flips: list[Flip] = []
    for number in range(count):
        position = rng.choice(structure) if number % 2 else rng.randrange(2 * PAGE, len(sample.data))
        flips.append(Flip(position, rng.randrange(8), check_tail=number % 4 < 2))
    return flips


def _structure(sample: Sample) -> list[int]:
    """The positions of all bytes of leaf pages in use that are headers, positions of nodes, or keys."""
    with tempfile.TemporaryDirectory(dir=ram()) as folder:
        file = PageFile(sample.write_to(Path(folder)) / DATA)
        pages = survey(file)[0].read
        positions: list[int] = []
        for page in sorted(pages):
            nodes = leaf_nodes(file.page(page))
            positions += range(page * PAGE, page * PAGE + 16 + 2 * len(nodes))
            for node in nodes:
                start = page * PAGE + node.position
                positions += range(start, start + 8 + len(node.key))
        file.close()
    return positions


# The parent.


def read_damaged(sample: Sample, flips: Sequence[Flip]) -> Tally:
    tally = Tally()
    with tempfile.NamedTemporaryFile(dir=ram()) as stored:
        pickle.dump(sample, stored)
        stored.flush()
        left = list(flips)
        while left:
            done, died = _read_in_child(stored.name, left)
            for outcome in done:
                tally.add(outcome)
            left = left[len(done) :]
            if died:
                tally.add(Outcome(left.pop(0), "died", died))
    return tally


def _read_in_child(stored: str, flips: Sequence[Flip]) -> tuple[list[Outcome], str]:
    script = f"from tests.robustness.damaged_copies import read_copies; read_copies({stored!r})"
    lines = "".join(f"{json.dumps(flip)}\n" for flip in flips)
    child = subprocess.run(
        [sys.executable, "-c", script], input=lines, capture_output=True, text=True, check=False, timeout=3000
    )
    done = [
        Outcome(flip, *json.loads(line)) for flip, line in zip(flips, child.stdout.splitlines(), strict=False)
    ]
    if not child.returncode:
        return done, ""
    how = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit {child.returncode}"
    return done, f"{how}: {child.stderr[-500:]}"


# The child.


def read_copies(stored: str) -> None:
    with open(stored, "rb") as stream:
        sample: Sample = pickle.load(stream)
    folder = Path(tempfile.mkdtemp(dir=ram()))
    try:
        for line in sys.stdin:
            flip = Flip(*json.loads(line))
            print(json.dumps(_outcome(sample, flip, folder / "journal")), flush=True)
            shutil.rmtree(folder / "journal")
    finally:
        shutil.rmtree(folder)


def flipped(sample: Sample, flip: Flip) -> bytearray:
    data = bytearray(sample.data)
    data[flip.position] ^= 1 << flip.bit
    return data


def _outcome(sample: Sample, flip: Flip, folder: Path) -> tuple[str, str]:
    sample.write_to(folder, flipped(sample, flip))
    try:
        journal = _open(folder, whole_tail=flip.check_tail)
    except JournalError as refused:
        return "refused", str(refused)
    try:
        wrong, damaged = _read_all(sample, journal)
        if not wrong and damaged and not _finds_damage(folder, journal):
            wrong = ["verify does not find the damage"]
    finally:
        with suppress(JournalError):
            journal.close()
    if wrong:
        return "wrong", ", ".join(wrong[:5])
    return ("damaged", damaged[0]) if damaged else ("right", "")


def _open(folder: Path, *, whole_tail: bool) -> Journal:
    """Open a journal. The newest event is always in the tail that is checked: its key is the head."""
    journal = Journal.open(folder, check_tail=whole_tail)
    try:
        if not whole_tail:
            with journal.read() as view:
                check_tail(view, folder, depth=1)
    except BaseException:
        journal.close()
        raise
    return journal


def _finds_damage(folder: Path, journal: Journal) -> bool:
    file = PageFile(folder / DATA)
    found = audit(file, Databases._fields, file.newest_meta()).damage
    file.close()
    if found:
        return True
    with journal.read() as view:
        return not verify.verify(view).sound


def _read_all(sample: Sample, journal: Journal) -> tuple[list[str], list[str]]:
    """The wrong values that were returned, and the errors that were raised."""
    wrong: list[str] = []
    damaged: list[str] = []
    for what, read, expected in _reads(sample):
        try:
            with journal.read() as view:
                if read(view) != expected:
                    wrong.append(what)
        except JournalError as error:
            damaged.append(str(error))
    return wrong, damaged


Read = tuple[str, Callable[[View], Any], Any]


def _reads(sample: Sample) -> Iterator[Read]:
    yield "head", lambda view: view.head, sample.head
    yield "floor", lambda view: view.floor, sample.floor
    yield "types", lambda view: view.types(), {name: number for number, name in enumerate(TYPES, 1)}
    kept = [event for event in sample.events.values() if event.offset > sample.floor]
    yield "events", lambda view: list(view.all_events(sample.floor)), kept
    yield from _reads_of_state("", sample, sample.head)
    for at in (sample.floor, (sample.floor + sample.head) // 2, sample.head - 3):
        yield from _reads_of_state(f" at {at}", sample, at)
    for name in sample.names():
        expected = [event for event in kept if (event.type_id, event.namespace, event.name) == name]
        yield f"history of {name}", _history(name, sample.floor), expected


def _reads_of_state(where: str, sample: Sample, at: int) -> Iterator[Read]:
    state = sample.state(at)
    for number in range(1, len(TYPES) + 1):
        rows = {name: row for name, row in state.items() if name[0] == number}
        yield f"list of {number}{where}", _rows(number, at), rows
        yield f"count of {number}{where}", _count(number, at), len(rows)
    for name in sample.names():
        yield f"get {name}{where}", _get(name, at), state.get(name)


def _rows(number: int, at: int) -> Callable[[View], dict[Name, Row]]:
    return lambda view: {(number, space, name): row for space, name, row in view.at(at).rows(number)}


def _count(number: int, at: int) -> Callable[[View], int]:
    return lambda view: view.at(at).count(number)


def _get(name: Name, at: int) -> Callable[[View], Row | None]:
    return lambda view: view.at(at).get(*name)


def _history(name: Name, floor: int) -> Callable[[View], Any]:
    return lambda view: [event for event in view.history(*name) if event.offset > floor]
