"""Data derived from the journal and stored beside it equals what reading the whole log finds.

It is read in parts, by several processes, while the log grows and shrinks.
"""

from __future__ import annotations

import fcntl
import math
import os
import random
import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest

from rewound.actors.rewind import index_file, search
from rewound.actors.rewind import timeline as timeline_module
from rewound.actors.rewind.index_file import IndexFile, Unavailable
from rewound.actors.rewind.long_work import LongWork, Piece, run
from rewound.actors.rewind.search import (
    Seen,
    TextIndex,
    count_found,
    find_events,
    parse_text,
    restricted,
    text_of,
)
from rewound.actors.rewind.timeline import Block, Cells, Hit, Range, TimelineIndex, Track
from rewound.journal import Journal, retention
from rewound.journal.recording import Recording
from rewound.journal.records import Event
from tests.actors.rewind.test_timeline_index import brute_force, counted, some_events, steps_of
from tests.journal.model import NOON, Model

BLOCK, BATCH, PARTITION = 16, 8, 32
COLORS = ("amber", "blue", "coral", "green")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path / "journal")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "_LINKS", 7)
    monkeypatch.setattr(timeline_module, "STEP", 5)
    monkeypatch.setattr(search, "_SECONDS", math.inf)  # a busy machine would exceed the limit
    for module in (index_file, search, timeline_module):
        for name, value in (("BLOCK", BLOCK), ("BATCH", BATCH), ("PARTITION", PARTITION)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


class Counting:
    """Stored blocks, and how many were found and saved."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self.found = self.saved = 0

    def load_blocks(self, first: int, last: int) -> dict[int, Block]:
        blocks = self._file.load_blocks(first, last)
        self.found += len(blocks)
        return blocks

    def save_block(self, number: int, block: Block) -> None:
        self.saved += 1
        self._file.save_block(number, block)


def test_the_newest_events_are_read_first(journal: Journal) -> None:
    model = Model()
    journal.append([model.put(f"n{at % 7}") for at in range(100)])
    index = TimelineIndex(journal)
    lows = []
    while not lows or not index.complete:
        run(index.update(lambda: True))
        lows.append(index.low)
        times = list(range(NOON + 1000 * (index.low + 1), NOON + 1000 * 102, 1000))
        assert counted(index, times) == brute_force(journal, times)
    assert lows == [80, 64, 48, 32, 16, 0]


def test_what_is_not_shown_at_once_is_added_later(journal: Journal) -> None:
    model = Model()
    journal.append([model.put(f"n{at % 7}") for at in range(200)])
    index = TimelineIndex(journal)
    for _ in range(40):
        run(index.update(lambda: True, shows=False))
    assert index.complete
    times = [NOON, NOON + 1_000_000]
    assert counted(index, times) == brute_force(journal, times)


def test_older_blocks_that_are_broken_off_anywhere_count_once(journal: Journal) -> None:
    model = Model()
    journal.append([model.put(f"n{at % 7}") for at in range(120)])
    taken, ended = 0, False
    while not ended:
        taken += 1
        index = TimelineIndex(journal)
        broken_off = steps_of(index)
        ended = sum(1 for _ in islice(broken_off, taken)) < taken
        broken_off.close()
        run(index.update())
        assert index.statistics()["events"] == 120, f"broken off after {taken} steps"
    assert taken > 50


def test_index_starts_again_after_many_events(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events since the last request are also read from the newest to the oldest."""
    monkeypatch.setattr(timeline_module, "_GAP", 3 * BLOCK)
    model = Model()
    journal.append([model.put(f"n{at % 7}") for at in range(40)])
    index = TimelineIndex(journal)
    run(index.update())
    journal.append([model.put(f"n{at % 7}") for at in range(100)])
    run(index.update(lambda: True))
    assert (index.low, index.upto) == (112, 140)
    run(index.update())
    times = list(range(NOON, NOON + 1000 * 142, 3000))
    assert counted(index, times) == brute_force(journal, times)


def test_blocks_are_stored_and_used_again(journal: Journal) -> None:
    model, chance = Model(), random.Random(5)
    file = IndexFile(journal)
    saved = 0
    for growth in range(5):
        journal.append(some_events(model, chance, 50))
        if growth == 3:
            while not retention.advance(journal, 70).done:
                pass
        blocks = Counting(file)
        index = TimelineIndex(journal, blocks)
        run(index.update())
        whole = model.head // BLOCK - index.start // BLOCK
        assert blocks.found + blocks.saved in (whole, whole - 1)  # retention is inside of one
        assert blocks.found >= (saved if not index.start else 0)
        saved += blocks.saved
        times = list(range(NOON, NOON + 1000 * (model.head + 2), 3000))
        assert counted(index, times) == brute_force(journal, times)
    file.close()


def test_blocks_of_other_events_are_not_used(journal: Journal, tmp_path: Path) -> None:
    """As after a restore from a backup, which has the same journal identity."""
    model = Model()
    journal.append([model.put(f"n{at}") for at in range(40)])
    file = IndexFile(journal)
    run(TimelineIndex(journal, file).update())
    other = Journal.open(tmp_path / "other")
    changed = Model()
    other.append([changed.put(f"n{at}", namespace="elsewhere") for at in range(40)])
    blocks = Counting(file)
    index = TimelineIndex(other, blocks)
    run(index.update())
    assert {track.namespace for track in index.tracks()} == {"elsewhere"}
    file.close()
    other.close()


def test_damaged_blocks_are_read_again(journal: Journal) -> None:
    model = Model()
    journal.append([model.put(f"n{at}") for at in range(40)])
    file = IndexFile(journal)
    run(TimelineIndex(journal, file).update())
    assert spoil(journal, "blocks") == 2
    times = list(range(NOON, NOON + 1000 * 42, 3000))
    for found in (0, 2):
        blocks = Counting(file)
        index = TimelineIndex(journal, blocks)
        run(index.update())
        assert blocks.found == found
        assert counted(index, times) == brute_force(journal, times)
    file.close()


def spoil(journal: Journal, table: str) -> int:
    """Change the last byte of every row of a table; returns the number of rows."""
    connection = sqlite3.connect(journal.path / index_file.FILE)
    rows = connection.execute(f"SELECT number, data FROM {table}").fetchall()
    for number, data in rows:
        changed = data[:-1] + bytes([data[-1] ^ 1])
        connection.execute(f"UPDATE {table} SET data = ? WHERE number = ?", (changed, number))
    connection.commit()
    connection.close()
    return len(rows)


def test_damaged_statuses_are_made_again(journal: Journal) -> None:
    model = Model()
    journal.append([model.put("n", filler=f',"status":{{"ready":{at}}}') for at in range(BATCH)])
    file = IndexFile(journal)
    assert run(TextIndex(journal, file, str).index_next(0, BATCH))
    assert spoil(journal, "statuses") == 1
    with pytest.raises(Unavailable, match="a checksum differs"):
        file.statuses(0)
    assert file.broken
    file.close()
    again = IndexFile(journal)
    assert run(TextIndex(journal, again, str).index_next(0, BATCH))
    _, (statuses,) = again.statuses(0)
    assert [list(offsets) for offsets in statuses.values()] == [list(range(2, BATCH + 1))]
    again.close()


def test_retention_may_remove_words_while_they_are_searched(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, many = Model(), 2 * PARTITION
    journal.append([model.put(f"n{at}") for at in range(many)])
    file, other = IndexFile(journal), IndexFile(journal)
    text = TextIndex(journal, file, str)
    while run(text.index_next(0, many)):
        pass
    file.release()
    partitions = index_file._partitions

    def removed_meanwhile(*arguments: Any) -> list[int]:
        found = partitions(*arguments)
        assert other.claim(PARTITION)
        return found

    monkeypatch.setattr(index_file, "_partitions", removed_meanwhile)
    found = words(text, "default", 0, many, descending=True)
    assert found == list(range(many, 0, -1))
    assert run(text.find_all('"default"', 0, many, 0)) == []
    assert words(text, "default", 0, many, descending=False) == list(range(PARTITION + 1, many + 1))
    file.close()
    other.close()


def test_a_file_that_was_deleted_or_replaced_is_not_used(journal: Journal) -> None:
    """Otherwise a process would not read what it wrote."""
    model = Model()
    journal.append([model.put(f"n{at}") for at in range(BATCH)])
    files = [IndexFile(journal), IndexFile(journal)]
    path = journal.path / index_file.FILE
    for name in list(path.parent.glob(f"{index_file.FILE}*")):
        name.unlink()
    for file in files:
        assert file.broken
        with pytest.raises(Unavailable, match="the index is being rebuilt"):
            file.covered()
    assert not path.exists()
    again = IndexFile(journal)
    assert run(TextIndex(journal, again, str).index_next(0, BATCH))
    for file in files:
        assert file.broken
        file.close()
    assert not again.broken
    again.close()
    later = IndexFile(journal)
    found = words(TextIndex(journal, later, str), "default", 0, BATCH, descending=False)
    assert found == list(range(1, BATCH + 1))
    later.close()


def test_processes_open_the_file_one_after_the_other(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two processes that create it at the same time would find it locked."""
    connect, tried = IndexFile._connect, []

    def connect_alone(file: IndexFile) -> sqlite3.Connection:
        folder = os.open(journal.path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)
        tried.append(file)
        return connect(file)

    monkeypatch.setattr(IndexFile, "_connect", connect_alone)
    file = IndexFile(journal)
    assert tried == [file]
    file.close()


def test_words_equal_those_of_the_whole_log(journal: Journal) -> None:
    """Two processes index in turn, the newest events first, while events are added and removed."""
    model, chance = Model(), random.Random(6)
    files = [IndexFile(journal), IndexFile(journal)]
    texts = [TextIndex(journal, file, lambda type_id: f"kind{type_id}") for file in files]
    floor = 0
    for growth in range(6):
        journal.append(colored(model, chance, 37))
        if growth == 4:
            floor = 90
            while not retention.advance(journal, floor).done:
                pass
        for _ in range(1000):
            number = chance.randrange(2)
            assert files[number].claim(floor)
            goes_on = run(texts[number].index_next(floor, model.head))
            files[number].release()
            if not goes_on:
                break
        for text in texts:
            for color in COLORS:
                expected = matching(journal, color, floor)
                assert words(text, color, floor, model.head, descending=True) == expected[::-1]
                assert words(text, color, floor, model.head, descending=False) == expected
    for file in files:
        file.close()


def test_words_of_strange_objects() -> None:
    """Deeper than Python can compare, wide, and with values that are not text; each value takes only a few steps."""

    def nested(depth: int, leaf: Any) -> dict[str, Any]:
        content: dict[str, Any] = {"leaf": leaf}
        for level in range(depth):
            content = {"a": content, f"b{level}": level, "c": [{"d": [content.get("leaf")]}]}
        return content

    event = Model().put("web")
    before, after = nested(3000, "old"), nested(3000, "new")
    assert "leaf old new" in text_of("K", event, before, after, values=True)
    assert "old" not in text_of("K", event, before, after, values=False)
    assert len(text_of("K", event, None, {"data": {"x": ["y"] * 100_000}}, values=True)) <= search.MAX_TEXT
    long = "word " * 1000
    changed = text_of(
        "K", event, {"data": {"x": f"{long}tail blue"}}, {"data": {"x": f"{long}tail red"}}, values=True
    )
    assert changed == "K default web data.x blue red"
    odd = {"data": {"n": None, "t": True, "f": 1.5, "z": "a\0b", "at": "2026-11-17T14:00:00Z", "e": ""}}
    assert text_of("K", event, {"data": {}}, odd, values=True) == (
        "K default web data.n data.t true data.f 1.5 data.z a b data.at data.e"
    )


def test_another_process_waits_for_the_one_that_writes(journal: Journal) -> None:
    first, second = IndexFile(journal), IndexFile(journal)
    assert first.claim(0)
    assert first.claim(0)
    assert not second.claim(0)
    first.release()
    assert second.claim(0)
    second.close()
    assert first.claim(0)
    first.close()


def test_a_batch_for_another_coverage_is_not_stored(journal: Journal) -> None:
    model = Model()
    journal.append([model.put(f"n{at}") for at in range(14)])
    file = IndexFile(journal)
    texts = [TextIndex(journal, file, str), TextIndex(journal, file, str)]
    slow = texts[0].index_next(0, 14)
    looked = next(slow).run()
    assert run(texts[1].index_next(0, 14))
    assert run(_rest(slow, looked)) is False
    assert run(texts[0].index_next(0, 14))
    assert not run(texts[1].index_next(0, 14))
    file.close()


def test_a_step_says_how_much_it_parses(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Including the previous versions: small events may follow large ones."""
    parsed = 0

    def counted(data: bytes) -> Any:
        nonlocal parsed
        parsed += len(data)
        return orjson.loads(data)

    monkeypatch.setattr(search, "parsed", counted)
    model, large = Model(), 40_000
    filler = f',"data":{{"x":"{"y" * large}"}}'
    journal.append([model.put(f"n{at}", filler=filler) for at in range(8)])
    journal.append([model.put(f"n{at}") for at in range(8)])
    file = IndexFile(journal)
    text = TextIndex(journal, file, str)
    for piece in pieces_of(text.index_next(8, 16)):
        assert parsed <= piece.size
        assert parsed < search._COMPARED + 2 * large
        parsed = 0
    assert words(text, "n3", 8, 16, descending=True) == [12]
    file.close()


def pieces_of(steps: LongWork[Any]) -> Iterator[Piece]:
    """Each piece, when it is done."""
    result = None
    while True:
        try:
            piece = steps.send(result)
        except StopIteration:
            return
        result = piece.run()
        yield piece


def test_a_replay_that_steps_back_while_words_are_read_misses_none(tmp_path: Path) -> None:
    model, path = Model(), tmp_path / "recorded"
    written = Journal.open(path)
    written.append([model.put(f"n{at}") for at in range(BATCH)])
    written.close()
    recording = Recording.open_folder(path)
    file = IndexFile(recording)
    text = TextIndex(recording, file, str)
    steps = text.index_next(0, recording.head)
    looked = next(steps).run()
    recording.position = 2
    assert run(_rest(steps, looked))
    recording.position = BATCH
    assert text.covered == (0, BATCH)
    assert words(text, "default", 0, BATCH, descending=False) == list(range(1, BATCH + 1))
    file.close()
    recording.close()


@pytest.mark.parametrize("descending", [True, False])
def test_large_events_are_found_in_several_steps(journal: Journal, descending: bool) -> None:
    model, many, large = Model(), 12, 20_000
    filler = f',"data":{{"x":"{"y" * large}"}}'
    journal.append([model.put(name, filler=filler) for name in "aabcdefghijk"])
    file = IndexFile(journal)
    text = TextIndex(journal, file, str)
    while run(text.index_next(0, many)):
        pass
    while not retention.advance(journal, 2).done:
        pass
    offsets, size = [], 0

    def check(event: Event) -> Hit:
        nonlocal size
        offsets.append(event.offset)
        size += len(event.body)
        return Hit(event.offset, Track(b"\0\1default"), 0, event)

    found = find_events(
        journal,
        text,
        restricted(parse_text("default"), [Seen(frozenset((1,)), None, True)], [1]),
        Range(0, many, descending),
        check,
        limit=100,
        max_bytes=1 << 30,
    )
    for _ in pieces_of(found):
        assert size < search._BYTES + 2 * large
        size = 0
    assert size < search._BYTES + 2 * large
    assert offsets == sorted(range(2, many + 1), reverse=descending)
    file.close()


def test_rows_without_matches_are_passed_in_steps(journal: Journal) -> None:
    model = Model()
    journal.append([model.put(f"n{at}") for at in range(10)])
    file = IndexFile(journal)
    text = TextIndex(journal, file, str)
    while run(text.index_next(0, 10)):
        pass
    passed = 0

    class Passed(list[Track]):
        def __iter__(self) -> Iterator[Track]:
            nonlocal passed
            for track in super().__iter__():
                passed += 1
                yield track

    index = TimelineIndex(journal)
    run(index.update())
    rows = [(Cells(), Passed(Track(b"\0\1%d" % at) for at in range(3000))), (Cells(), Passed(index.tracks()))]
    expression = restricted(parse_text("default"), [Seen(frozenset((1,)), None, True)], [1])
    for _ in pieces_of(count_found(text, expression, rows, [0, 5, 10], 1000, None)):
        assert passed <= 1000
        passed = 0
    assert [cells.flat() for cells, _ in rows] == [[], [0, 5, 0, 0, 1, 5, 0, 0]]
    file.close()


def _rest(steps: LongWork[bool], result: object) -> LongWork[bool]:
    """The steps after the first, which had this result."""
    while True:
        try:
            piece = steps.send(result)
        except StopIteration as end:
            return bool(end.value)
        result = yield piece


def colored(model: Model, chance: random.Random, many: int) -> list[Event]:
    events = []
    for _ in range(many):
        name = f"n{chance.randrange(9)}"
        filler = f',"data":{{"color":"{chance.choice(COLORS)}"}}'
        exists = (1, "default", name) in model.state()
        removed = exists and chance.random() < 0.2
        events.append(model.remove(name) if removed else model.put(name, filler=filler))
    return events


def matching(journal: Journal, color: str, floor: int) -> list[int]:
    """The events that set this color or changed it to another."""
    found = []
    with journal.read() as view:
        for event in view.events(floor):
            previous = view.event(event.previous)
            before, after = (
                previous is not None and color.encode() in previous.body,
                color.encode() in event.body,
            )
            if not event.removed and (before != after or (after and previous is None)):
                found.append(event.offset)
    return found


def words(text: TextIndex, word: str, after: int, upto: int, *, descending: bool) -> list[int]:
    expression = restricted(parse_text(word), [Seen(frozenset((1,)), None, True)], [1])
    found, following = run(text.find(expression, after, upto, 1000, descending=descending))
    assert not following
    return found
