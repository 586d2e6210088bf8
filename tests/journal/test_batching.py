"""Whatever copies a journal holds a bounded number of bytes, and no batch crosses the retention floor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rewound.journal import Event, Journal, retention
from rewound.journal.batch import Batch
from rewound.journal.batching import MOST_BYTES, in_batches
from rewound.journal.repair.recover import recover
from rewound.journal.transfer import fork, restore_state
from tests.journal.model import Model

LARGE = 1 << 20
COUNT = 12


@pytest.fixture
def large(journal: Journal, model: Model) -> Journal:
    """A journal of a dozen objects of a megabyte, with a floor in the middle."""
    journal.register_type("configmaps")
    for number in range(COUNT):
        journal.append([model.put(f"n{number}", filler=f',"data":"{"x" * LARGE}"')])
    retention.advance(journal, COUNT // 2)
    return journal


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[list[Event]]:
    """The batches that are encoded."""
    batches: list[list[Event]] = []
    encode = Journal.encode

    def kept(self: Journal, events: Sequence[Event], **more: Any) -> Batch:
        batches.append([*events])
        return encode(self, events, **more)

    monkeypatch.setattr(Journal, "encode", kept)
    return batches


def check(batches: list[list[Event]], floor: int) -> None:
    assert sum(map(len, batches)) == COUNT
    assert max(sum(len(event.body) for event in batch) for batch in batches) <= MOST_BYTES
    assert not [batch for batch in batches if batch[0].offset <= floor < batch[-1].offset]


def test_fork_holds_few_large_events(large: Journal, held: list[list[Event]], tmp_path: Path) -> None:
    with large.read() as view:
        fork(view, tmp_path / "fork", COUNT)
    check(held, COUNT // 2)


def test_recovery_holds_few_large_events(large: Journal, held: list[list[Event]], tmp_path: Path) -> None:
    large.close()
    recover(large.path, tmp_path / "recovered")
    check(held, COUNT // 2)


class Body(bytes):
    """Bytes that are counted while they exist."""

    alive = most = 0

    def __init__(self, content: bytes) -> None:
        Body.alive += len(content)
        Body.most = max(Body.most, Body.alive)

    def __del__(self) -> None:
        Body.alive -= len(self)


def test_state_is_restored_without_holding_all_of_it(tmp_path: Path, model: Model) -> None:
    def events() -> Iterator[tuple[str, Event]]:
        for number in range(COUNT):
            event = model.put(f"n{number}", filler=f',"data":"{"x" * LARGE}"')
            model.events.clear()
            yield "configmaps", event._replace(offset=number + 1, body=Body(event.body))

    restore_state(
        tmp_path / "new", events(), dialect="cluster", kubernetes="", cluster_id=bytes(16), floor=COUNT
    )
    journal = Journal.open(tmp_path / "new")
    with journal.read() as view:
        assert view.count(1) == COUNT
    journal.close()
    # The batch that was written, until the next one is complete, and the item that begins the one after.
    assert Body.most <= 2 * MOST_BYTES + LARGE + 1000
    assert Body.alive == 0


def test_batches_are_bounded_in_number_and_size() -> None:
    sizes = [1, 1, 1, 9, 1, 1, 30, 1, 4, 4, 4]
    assert list(in_batches(sizes, int, most=3, most_bytes=10)) == [
        [1, 1, 1],
        [9, 1],
        [1],
        [30],
        [1, 4, 4],
        [4],
    ]


def test_items_that_must_be_apart_begin_a_batch() -> None:
    batches = in_batches(range(10), lambda _: 0, most=4, apart=lambda before, item: before <= 5 < item)
    assert list(batches) == [[0, 1, 2, 3], [4, 5], [6, 7, 8, 9]]
