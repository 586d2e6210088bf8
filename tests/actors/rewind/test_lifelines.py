"""The lifelines of objects in a range equal those found by reading the whole log."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from rewound.actors.rewind import lifelines as module
from rewound.actors.rewind import timeline as timeline_module
from rewound.actors.rewind.lifelines import (
    Details,
    Identity,
    Lifelines,
    Placed,
    TimedRange,
    events_of,
    numbers_of,
)
from rewound.actors.rewind.long_work import run
from rewound.actors.rewind.timeline import Patterns, TimelineIndex, Track, object_number, patterns
from rewound.actors.selectors.facts import pack_facts
from rewound.journal import Journal, keys, retention
from rewound.journal.records import Event
from tests.actors.rewind.test_timeline_index import some_events
from tests.journal.model import NOON, Model

ALL = Patterns()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path / "journal")
    yield opened
    opened.close()


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FOLDED", "_COPIED"):
        monkeypatch.setattr(module, name, 3)
    monkeypatch.setattr(timeline_module, "_LINKS", 7)


def brute_force(
    events: Sequence[Event], floor: int, first: int, last: int
) -> list[tuple[int, str, str, int, int, int]]:
    """Type, namespace, name, created, deleted and number of changes of each life."""
    lives: list[list[Any]] = []
    current: dict[tuple[int, str, str], list[Any]] = {}
    for event in events:
        if event.offset > last:
            break
        key = event.type_id, event.namespace, event.name
        if key not in current:
            current[key] = [*key, event.offset if event.offset > floor else 0, 0, 0]
            lives.append(current[key])
        elif event.offset <= floor:
            current[key][3] = 0
        life = current[key]
        if event.offset > first:
            life[5] += 1
        if event.removed:
            life[4] = event.offset
            del current[key]
    return sorted(tuple(life) for life in lives if not life[4] or life[4] > first)


def test_older_events_that_are_read_later(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of a journal that is opened for the first time begins with the newest block."""
    monkeypatch.setattr(timeline_module, "BLOCK", 4)
    model, lifelines = Model(), Lifelines(journal)
    journal.append([model.put(name) for name in "abcd"])
    journal.append([model.put("a") for _ in range(4)])
    index, shown = TimelineIndex(journal), list[int]()
    while not index.complete or not shown:
        run(index.update(lambda: True))
        lives = run(lifelines.lives(index.tracks(), 0, 8, every)).busiest
        shown.append(len(lives))
    found = sorted((life.created, life.deleted, life.changes) for life in lives)
    assert found == [(1, 0, 5), *((offset, 0, 1) for offset in range(2, 5))]
    assert len(shown) > 1


def test_objects_exist_though_older_ones_were_deleted(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many deletes as creates: the create of one of them is before the start of the index."""
    monkeypatch.setattr(timeline_module, "BLOCK", 4)
    model, lifelines = Model(), Lifelines(journal)
    journal.append([model.put(name) for name in "acde"])
    journal.append([model.put("b"), model.remove("a"), *(model.put(f"x{at}") for at in range(2))])
    journal.append([model.remove("x0"), model.remove("x1")])
    index = TimelineIndex(journal)
    run(index.update(lambda: True))
    assert not index.complete
    assert not index.knows_existing
    (track,) = index.tracks()
    found = run(lifelines.lives([track], 10, 10, every, knows_existing=index.knows_existing)).busiest
    assert [life.created for life in found] == [5]
    run(index.update())
    assert index.knows_existing
    found = run(lifelines.lives(index.tracks(), 10, 10, every, knows_existing=True)).busiest
    assert sorted(life.created for life in found) == [2, 3, 4, 5]


def test_an_index_of_the_newest_events_does_not_know_what_existed(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_module, "MAX_EVENTS", 5)
    model = Model()
    journal.append([model.put(name) for name in "abcdefgh"])
    index = TimelineIndex(journal)
    run(index.update())
    assert index.complete
    assert not index.knows_existing


def test_looks_at_many_tracks_in_turns(journal: Journal) -> None:
    tracks = [Track(b"\0\1" + str(number).encode()) for number in range(2000)]
    steps = Lifelines(journal).lives(tracks, 0, 10, every, knows_existing=True)
    pieces, result = 0, None
    with suppress(StopIteration):
        while True:
            result = steps.send(result).run()
            pieces += 1
    assert pieces >= 2000 / 100


@pytest.mark.usefixtures("small_steps")
def test_marks_stay_right_while_the_index_drops_and_adds_events(journal: Journal) -> None:
    model, lifelines = Model(), Lifelines(journal)
    journal.append([model.put(name) for name in "ab"])
    journal.append([model.put(name) for _ in range(10) for name in "ab"])
    index = TimelineIndex(journal)
    run(index.update())
    (track,) = index.tracks()
    lives = run(lifelines.lives([track], 4, 22, every)).busiest
    placed = [Placed(life, Identity("", "", "")) for life in lives]
    expected = run(events_of(placed, 4, 22))
    steps = events_of(placed, 4, 22)
    result: Any = None
    found: list[Any] = []
    try:
        for at in range(1000):
            result = steps.send(result).run()
            if at == 1:
                track.trim(5)
    except StopIteration as end:
        found = end.value
    assert found == expected
    assert [len(offsets) for offsets in found] == [9, 9]


@pytest.mark.usefixtures("small_steps")
def test_lives_equal_those_of_the_whole_log(journal: Journal) -> None:
    chance, model = random.Random(5), Model()
    index, lifelines = TimelineIndex(journal), Lifelines(journal)
    for floor in (0, 0, 40, 40):
        journal.append(some_events(model, chance, 60))
        while floor and not retention.advance(journal, floor).done:
            pass
        run(index.update())
        for _ in range(30):
            first, last = sorted(
                (chance.randrange(floor, model.head), chance.randrange(floor, model.head + 1))
            )
            found = []
            for track in index.tracks():
                named = {
                    object_number(keys.of_object(track.type_id, track.namespace, name)): name
                    for name in "abcd"
                }
                for life in run(
                    lifelines.lives([track], first, last, every, knows_existing=chance.random() < 0.5)
                ).busiest:
                    found.append(
                        (
                            track.type_id,
                            track.namespace,
                            named[life.number],
                            life.created,
                            life.deleted,
                            life.changes,
                        )
                    )
                    with journal.read() as view:
                        event = view.event(life.known)
                    assert event is not None
                    assert event.name == named[life.number]
                some = run(
                    lifelines.lives([track], first, last, lambda track: numbers_of(track, ["a", "none"]))
                )
                assert all(named[life.number] == "a" for life in some.busiest)
            assert sorted(found) == brute_force(model.events, floor, first, last)


def every(track: Track) -> None:
    return None


class Story:
    """Writes objects with owners and phases."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.events, self.newest = journal, list[Event](), dict[str, int]()

    def write(
        self, name: str, status: Any = None, owners: Sequence[str] = (), *, removed: bool = False
    ) -> int:
        offset = len(self.events) + 1
        references = [{"uid": owner, "controller": owner == owners[-1]} for owner in owners]
        body = {"metadata": {"name": name, "ownerReferences": references}, "status": status}
        facts = pack_facts({}, {}, f"uid-{name}", list(owners))
        previous = self.newest.get(name, 0)
        self.events.append(
            Event(
                offset,
                1,
                "x",
                "default",
                name,
                previous,
                removed,
                NOON + offset,
                "u",
                "m",
                facts,
                orjson.dumps(body),
            )
        )
        self.newest[name] = 0 if removed else offset
        return offset

    def placed(self, lifelines: Lifelines, names: Patterns = ALL, *, roots: bool = True) -> list[Placed]:
        self.journal.append(self.events[self.journal.head :])
        index = TimelineIndex(self.journal)
        run(index.update())
        (track,) = index.tracks()
        lives = run(lifelines.lives([track], 0, len(self.events), every))
        return run(lifelines.forest(lives, names, roots=roots)).placed

    def details(self, lifelines: Lifelines, first: int = 0) -> dict[str, Details]:
        placed = self.placed(lifelines)
        times = range(NOON, NOON + len(self.events) + 2)
        span = TimedRange(NOON + first, first, len(self.events), times, [time - NOON - 1 for time in times])
        found = run(lifelines.details(placed, span, lambda track: "pods"))
        return {one.identity.name: details for one, details in zip(placed, found, strict=False)}


def shape(placed: list[Placed]) -> list[tuple[str, int]]:
    return [(one.identity.name, one.depth) for one in placed]


def test_dependents_come_below_their_owners(journal: Journal) -> None:
    story = Story(journal)
    story.write("alone")
    for name, owners in (
        ("web", ()),
        ("pod-2", ("uid-set",)),
        ("set", ("uid-other", "uid-web")),  # the second is the controller
        ("pod-1", ("uid-set",)),
        ("orphan", ("uid-gone",)),
    ):
        story.write(name, owners=owners)
    story.write("orphan", owners=("uid-gone",))
    lifelines = Lifelines(journal)
    assert shape(story.placed(lifelines)) == [
        ("web", 0),
        ("set", 1),
        ("pod-2", 2),
        ("pod-1", 2),
        ("orphan", 0),
        ("alone", 0),
    ]
    assert shape(story.placed(lifelines, patterns("pod-*", "web"))) == [
        ("web", 0),
        ("pod-2", 0),
        ("pod-1", 0),
    ]
    assert shape(story.placed(lifelines, roots=False))[0] == ("orphan", 0)


def test_owners_in_circles_and_in_long_chains(journal: Journal) -> None:
    story = Story(journal)
    for name, owner in (("a", "b"), ("b", "c"), ("c", "a"), ("self", "self"), ("below", "a")):
        story.write(name, owners=(f"uid-{owner}",))
    for number in range(3000):
        story.write(f"chain-{number}", owners=(f"uid-chain-{number - 1}",))
    placed = story.placed(Lifelines(journal))
    assert len(placed) == 3005
    assert {name for name, _ in shape(placed)} >= {"a", "b", "c", "self", "below"}
    assert shape(placed)[2999] == ("chain-2999", 2999)


def test_only_the_busiest_lives_are_read(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LIVES", 2)
    story = Story(journal)
    for name in ("a", "b", "c", "b", "c", "c"):
        story.write(name)
    assert shape(story.placed(Lifelines(journal))) == [("c", 0), ("b", 0)]


def ready(value: bool) -> dict[str, Any]:
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": str(value)}]}


def test_phases_and_marks(journal: Journal) -> None:
    story, lifelines = Story(journal), Lifelines(journal)
    for status in ({"phase": "Pending"}, ready(False), ready(True), ready(True)):
        story.write("a", status)
    story.write("a", ready(True), removed=True)
    found = story.details(lifelines)["a"]
    assert (found.created, found.deleted) == (NOON + 1, NOON + 5)
    assert [(time - NOON, *phase) for time, phase in found.phases] == [
        (1, "Pending", "working"),
        (2, "NotReady", "working"),
        (3, "Running", "good"),
    ]
    assert found.marks == [NOON + number for number in (1, 2, 3, 4, 5)]


def test_the_first_phase_is_that_at_the_start_of_the_range(journal: Journal) -> None:
    story, lifelines = Story(journal), Lifelines(journal)
    story.write("a", {"phase": "Pending"})
    story.write("a", ready(False))
    story.write("b")
    story.write("a", ready(True))
    journal.append(story.events)
    index = TimelineIndex(journal)
    run(index.update())
    (track,) = index.tracks()
    placed = run(lifelines.forest(run(lifelines.lives([track], 3, 4, every)), Patterns(), roots=True)).placed
    (details, _) = run(lifelines.details(placed, TimedRange(NOON + 3, 3, 4, [], []), lambda track: "pods"))
    assert [(time - NOON, phase.words) for time, phase in details.phases] == [(3, "NotReady"), (4, "Running")]


def test_long_lives_are_sampled_and_remembered(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    story, lifelines = Story(journal), Lifelines(journal)
    for number in range(1000):
        story.write("a", ready(number < 300 or number >= 777))
    reads = 0
    original = Lifelines._events

    def counted(self: Lifelines, offsets: list[int]) -> list[Event]:
        nonlocal reads
        reads += len(offsets)
        return original(self, offsets)

    monkeypatch.setattr(Lifelines, "_events", counted)
    found = story.details(lifelines)["a"]
    assert [(time - NOON, phase.words) for time, phase in found.phases] == [
        (1, "Running"),
        (301, "NotReady"),
        (778, "Running"),
    ]
    assert reads < 100
    assert len(found.marks) <= module.MAX_MARKS
    reads = 0
    assert story.details(lifelines)["a"] == found
    assert reads == 0


def test_a_page_reads_only_so_much(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_READS", 50)
    story, lifelines = Story(journal), Lifelines(journal)
    for _ in range(5):
        for number in range(40):
            story.write(f"n{number}", ready(True))
    found = story.details(lifelines)
    assert len(found) == 40
    assert sum(bool(details.phases) for details in found.values()) <= 11
    assert all(len(details.marks) == 5 for details in found.values())


def test_pages_and_trees_of_large_objects_end_early(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, lifelines = Story(journal), Lifelines(journal)
    for number in range(6):
        story.write(f"n{number}", {"text": "x" * 1000})
    monkeypatch.setattr(module, "MAX_BYTES", 2000)
    monkeypatch.setattr(module, "_BYTES_TOGETHER", 1500)
    assert len(story.placed(lifelines)) == 6
    assert len(story.details(lifelines)) == 2
    monkeypatch.setattr(module, "MAX_BYTES_OF_NAMES", 2000)
    monkeypatch.setattr(module, "_READ_TOGETHER", 1)
    index = TimelineIndex(journal)
    run(index.update())
    lives = run(lifelines.lives(index.tracks(), 0, 6, every))
    assert run(Lifelines(journal).forest(lives, ALL, roots=True)).left_out == 4
    assert run(lifelines.forest(lives, ALL, roots=True)).left_out == 0  # it knows them
