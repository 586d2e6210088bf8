"""The index of the timeline counts the same as reading the whole log, while the log grows and shrinks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from rewound.actors.rewind import timeline as timeline_module
from rewound.actors.rewind.long_work import run
from rewound.actors.rewind.timeline import (
    CHANGES,
    Cells,
    Filter,
    Range,
    TimelineIndex,
    bucket_width,
    count,
    object_number,
    patterns,
    scan,
)
from rewound.journal import Journal, keys, retention
from rewound.journal.records import Event
from tests.journal.model import NOON, Model


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path / "journal")
    yield opened
    opened.close()


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a few events need several steps."""
    monkeypatch.setattr(timeline_module, "_LINKS", 7)
    monkeypatch.setattr(timeline_module, "_TRIMMED", 2)
    monkeypatch.setattr(timeline_module, "STEP", 5)
    monkeypatch.setattr(timeline_module, "_TIMES_SLICE", 3)
    monkeypatch.setattr(timeline_module, "_SCAN_SLICE", 4)


def change_of(event: Event) -> str:
    return "deleted" if event.removed else "updated" if event.previous else "created"


def brute_force(journal: Journal, times: list[int]) -> dict[tuple[int, str], int]:
    """Counts by bucket and change."""
    found: dict[tuple[int, str], int] = {}
    with journal.read() as view:
        for event in view.events(view.floor):
            for bucket, (start, end) in enumerate(pairwise(times)):
                if start <= event.time < end:
                    key = bucket, change_of(event)
                    found[key] = found.get(key, 0) + 1
    return found


def counted(index: TimelineIndex, times: list[int]) -> dict[tuple[int, str], int]:
    edges = run(index.times.offsets_before(times, index.start, index.upto))
    cells = Cells()
    run(count(index.tracks(), edges, cells))
    flat = cells.flat()
    return {
        (flat[at], change): flat[at + 1 + number]
        for at in range(0, len(flat), 4)
        for number, change in enumerate(CHANGES)
        if flat[at + 1 + number]
    }


def some_events(model: Model, chance: random.Random, many: int) -> list[Event]:
    events = []
    for _ in range(many):
        name, namespace, type_id = chance.choice("abcd"), chance.choice("xy"), chance.choice((1, 2))
        exists = (type_id, namespace, name) in model.state()
        change = model.remove if exists and chance.random() < 0.3 else model.put
        events.append(change(name, namespace=namespace, type_id=type_id))
    return events


def test_counts_equal_those_of_the_whole_log(journal: Journal, model: Model) -> None:
    chance = random.Random(1)
    index = TimelineIndex(journal)
    time = NOON
    for growth in range(6):
        batch = []
        for event in some_events(model, chance, 40):
            time += chance.choice((0, 0, 1, 3, 50))
            batch.append(event._replace(time=time))
        journal.append(batch)
        if growth == 3:
            with journal.read() as view:
                floor = view.head - 60
            while not retention.advance(journal, floor).done:
                pass
        run(index.update())
        for width in (1, 7, 100, 100_000):
            times = list(range(NOON - width, time + 2 * width, width))[:2000]
            assert counted(index, times) == brute_force(journal, times)


def test_knows_what_existed_where_it_begins(journal: Journal, model: Model) -> None:
    """Whether the index was read before or after retention removed events."""
    chance = random.Random(3)
    journal.append(some_events(model, chance, 50))
    before = TimelineIndex(journal)
    run(before.update())
    for floor in (30, 60):
        journal.append(some_events(model, chance, 40))
        while not retention.advance(journal, floor).done:
            pass
        after = TimelineIndex(journal)
        for index in (before, after):
            run(index.update())
            assert existing(index) == {key: row.offset for key, row in model.state(at=floor).items()}


def existing(index: TimelineIndex) -> dict[tuple[int, str, str], int]:
    return {
        (track.type_id, track.namespace, name): track.existing[number]
        for track in index.tracks()
        for name in "abcd"
        for number in [object_number(keys.of_object(track.type_id, track.namespace, name))]
        if number in track.existing
    }


def test_reads_only_what_was_added(journal: Journal, model: Model) -> None:
    journal.append([model.put(f"n{at}") for at in range(30)])
    index = TimelineIndex(journal)
    run(index.update())
    assert sum(1 for _ in index.update()) == 0
    journal.append([model.put("n1")])
    assert sum(1 for _ in steps_of(index)) <= 4
    assert index.statistics()["events"] == 31


def steps_of(index: TimelineIndex) -> Iterator[None]:
    steps = index.update()
    result = None
    while True:
        try:
            work = steps.send(result)
        except StopIteration:
            return
        result = work.run()
        yield


def test_an_update_that_is_broken_off_counts_nothing_twice(journal: Journal, model: Model) -> None:
    journal.append([model.put(f"n{at}") for at in range(30)])
    index = TimelineIndex(journal)
    broken_off = steps_of(index)
    for _ in range(2):
        next(broken_off)
    broken_off.close()
    run(index.update())
    assert index.statistics()["events"] == 30


def test_knows_the_oldest_event_after_retention(journal: Journal, model: Model) -> None:
    """Also if nothing was written since."""
    journal.append([model.put("n") for _ in range(30)])
    index = TimelineIndex(journal)
    run(index.update())
    while not retention.advance(journal, 20).done:
        pass
    run(index.update())
    assert index.times.oldest == NOON + 1000 * 21
    assert sum(1 for _ in index.update()) == 0


@pytest.mark.parametrize("descending", [True, False])
def test_a_scan_has_all_events_in_order(journal: Journal, model: Model, descending: bool) -> None:
    chance = random.Random(2)
    journal.append(some_events(model, chance, 60))
    index = TimelineIndex(journal)
    run(index.update())
    with journal.read() as view:
        expected = [event for event in view.events(0) if 5 < event.offset <= 50]
    if descending:
        expected.reverse()
    found = scanned(journal, index, Range(5, 50, descending), Filter(), limit=1000)
    assert found == expected
    sought = Filter(name=patterns("a"), verb=patterns("update"))
    named = scanned(journal, index, Range(5, 50, descending), sought, limit=3)
    assert named == [event for event in expected if (event.name, event.verb) == ("a", "update")][:3]


def test_a_scan_that_costs_too_much_returns_where_to_continue(
    journal: Journal, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_module, "MAX_COST", 20)
    journal.append([model.put(f"n{at}") for at in range(60)])
    index = TimelineIndex(journal)
    run(index.update())
    following, pages, found = 60, 0, []
    while following:
        page = run(
            scan(
                journal,
                index.tracks(),
                Range(0, following),
                Filter(name=patterns("n0")),
                lambda track: True,
                limit=10,
                max_bytes=1000,
                events=True,
            )
        )
        found += [hit.offset for hit in page.hits]
        following, pages = page.following, pages + 1
    assert found == [1]
    assert 2 <= pages <= 5


def scanned(
    journal: Journal, index: TimelineIndex, wanted: Range, sought: Filter, limit: int
) -> list[Event | None]:
    steps = scan(
        journal,
        index.tracks(),
        wanted,
        sought,
        lambda track: True,
        limit=limit,
        max_bytes=1 << 30,
        events=True,
    )
    return [hit.event for hit in run(steps).hits]


@pytest.mark.parametrize(
    ("span", "buckets", "width"),
    [(1000, 2000, 1), (3_600_000_000, 500, 10_000_000), (86_400_000_000, 1000, 100_000_000), (1, 1, 1)],
)
def test_buckets_have_round_widths(span: int, buckets: int, width: int) -> None:
    assert bucket_width(span, buckets) == width
    # Aligned to its width, a range may need one bucket more.
    assert span // width + 2 <= buckets + 1 or span <= width
