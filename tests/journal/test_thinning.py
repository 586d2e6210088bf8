"""Events that only renew an object are dropped; everything else, and every later version, stays exact."""

from __future__ import annotations

import random
import re
from itertools import islice
from pathlib import Path

import pytest

from rewound.journal import Event, Journal, retention
from rewound.journal.backup import BackupFile, restore_backup
from rewound.journal.errors import Compacted
from rewound.journal.log import Journal as Log
from rewound.journal.records import Thinned
from rewound.journal.repair import verify
from rewound.journal.snapshot_writer import prune, take
from rewound.journal.stream import Header, Stored, StreamParser, Types
from rewound.journal.thinning import forget, thin
from rewound.journal.transfer import fork
from tests.journal.model import Model
from tests.journal.streaming import LEADER, Receiver, stream_of


def content(body: bytes) -> bytes:
    return re.sub(rb'"resourceVersion":"\d+"', b"", body)


def renews(before: Event, event: Event) -> bool:
    return content(before.body) == content(event.body)


def thinned(journal: Journal, upto: int, *, type_id: int = 1, max_events: int = 256) -> int:
    return sum(thin(journal, type_id, upto, renews, max_events=max_events))


def surviving(journal: Journal) -> list[tuple[int, int]]:
    with journal.read() as view:
        return [(event.offset, event.previous) for event in view.all_events(0)]


def renewals(journal: Journal, model: Model, count: int, *names: str) -> None:
    for _ in range(count):
        journal.append([model.put(name) for name in names])


def test_renewals_between_changes_are_dropped(journal: Journal, model: Model) -> None:
    journal.append([model.put("a"), model.put("a"), model.put("a"), model.put("a", filler=',"x":1')])
    journal.append([model.put("a", filler=',"x":1'), model.put("a", filler=',"x":1'), model.put("b")])
    assert thinned(journal, 5) == 2
    assert surviving(journal) == [(1, 0), (4, 1), (5, 4), (6, 5), (7, 0)]
    with journal.read() as view:
        assert view.thinned == {1: Thinned(5, 2)}
        assert verify.verify(view).differences == []
        assert [event.offset for event in view.history(1, "default", "a")] == [1, 4, 5, 6]
        assert list(view.at(5).rows(1)) == list(model.rows(1, at=5))


def test_newest_event_before_the_mark_goes_when_the_mark_moves_on(journal: Journal, model: Model) -> None:
    renewals(journal, model, 10, "a", "b")
    assert thinned(journal, 10) == 6
    renewals(journal, model, 10, "a", "b")
    assert thinned(journal, 30) == 20
    assert [offset for offset, _ in surviving(journal)][:4] == [1, 2, 29, 30]


def test_other_types_and_kept_events_stay(journal: Journal, model: Model) -> None:
    renewals(journal, model, 3, "a")
    journal.append([model.remove("a"), model.put("a"), model.put("a"), model.put("a"), model.remove("a")])
    journal.append([model.put("z", type_id=2), model.put("z", type_id=2), model.put("z", type_id=2)])
    thinned(journal, 10)
    assert surviving(journal) == [(1, 0), (4, 1), (5, 0), (8, 5), (9, 0), (10, 9), (11, 10)]


def test_snapshots_keep_what_they_refer_to(journal: Journal, model: Model) -> None:
    renewals(journal, model, 5, "a")
    list(take(journal))
    renewals(journal, model, 5, "a")
    thinned(journal, 9)
    assert [offset for offset, _ in surviving(journal)] == [1, 5, 9, 10]
    with journal.read() as view:
        assert verify.verify(view).differences == []


def test_what_no_present_object_needs_is_forgotten(journal: Journal, model: Model) -> None:
    journal.append(
        [model.put("a"), model.put("a", filler=',"x":1'), model.put("b"), model.put("b", filler="")]
    )
    journal.append([model.remove("a"), model.put("a"), model.put("c"), model.remove("c"), model.put("b")])
    dropped = sum(forget(journal, 1, 8))
    assert dropped == 5  # all of the first a and of c
    assert surviving(journal) == [(3, 0), (4, 3), (6, 0), (9, 4)]
    with journal.read() as view:
        assert view.thinned == {1: Thinned(8, 5, whole=True)}
        assert verify.verify(view).differences == []
        assert list(view.at(8).rows(1)) == list(model.rows(1, at=8))
    assert sum(forget(journal, 1, 8)) == 0


def test_a_snapshot_keeps_removed_objects_until_it_goes(journal: Journal, model: Model) -> None:
    journal.append([model.put("a"), model.put("a")])
    list(take(journal))
    journal.append([model.remove("a"), model.put("b"), model.put("b")])
    assert sum(forget(journal, 1, 4)) == 0
    assert [offset for offset, _ in surviving(journal)] == [1, 2, 3, 4, 5]
    prune(journal, 0)
    assert sum(forget(journal, 1, 4)) == 3
    assert surviving(journal) == [(4, 0), (5, 4)]


def test_a_follower_that_misses_forgotten_removals_starts_over(
    journal: Journal, model: Model, tmp_path: Path
) -> None:
    journal.register_type("events")
    journal.append([model.put("a"), model.put("b")])
    receiver = Receiver(tmp_path / "standby")
    receiver.receive(stream_of(journal))
    journal.append([model.remove("a"), model.put("b"), model.put("b"), model.put("b")])
    sum(forget(journal, 1, 4))
    with pytest.raises(Compacted):
        stream_of(journal, 2)
    stream_of(journal, 4)


@pytest.mark.parametrize("seed", range(4))
def test_forgetting_in_any_order_of_writes_retention_and_snapshots(seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"forget {seed}")
    model, journal = Model(), Journal.open(tmp_path / "journal", durable=False)
    journal.register_types(["events", "others"])
    contents, mark = dict.fromkeys("abcd", 0), 0
    for _ in range(40):
        write(chance, model, journal, contents, removals=0.4)
        upto = chance.randrange(journal.head)
        match chance.randrange(6):
            case 0:
                retention.advance(journal, upto)
            case 1:
                list(take(journal))
            case 2:
                prune(journal, 1)
            case 3:
                list(islice(thin(journal, 1, upto, renews, max_events=5), chance.randrange(1, 5)))
            case _:
                steps = forget(journal, 1, upto, max_events=chance.choice([3, 5, 256]))
                list(islice(steps, chance.randrange(1, 5)))  # it may be killed after any step
        with journal.read() as view:
            assert verify.verify(view).differences == []
            mark = view.thinned.get(1, Thinned(0, 0)).upto
            for version in range(max(view.floor, 1), view.head + 1):
                others = list(view.at(version).rows(2))
                assert others == list(model.rows(2, at=version))
                if version >= mark:
                    assert list(view.at(version).rows(1)) == list(model.rows(1, at=version))
    assert mark
    journal.close()


@pytest.mark.parametrize("seed", range(2))
def test_any_order_of_writes_retention_snapshots_and_thinning(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    model, journal = Model(), Journal.open(tmp_path / "leader", durable=False)
    journal.register_types(["leases", "others"])
    receiver = Receiver(tmp_path / "standby")
    contents = dict.fromkeys("abcd", 0)
    for _ in range(20):
        write(chance, model, journal, contents)
        match chance.randrange(5):
            case 0:
                retention.advance(journal, chance.randrange(journal.head))
            case 1:
                list(take(journal))
            case 2 | 3:
                upto = chance.randrange(journal.head)
                steps = thin(journal, 1, upto, renews, max_events=chance.choice([3, 5, 256]))
                list(islice(steps, chance.randrange(1, 5)))  # it may be killed after any step
            case 4:
                follow(receiver, journal)
        check(journal, model, 3)
    follow(receiver, journal)
    check(receiver.opened.journal, model)
    with journal.read() as view:
        fork(view, tmp_path / "fork", journal.head)
    forked = Journal.open(tmp_path / "fork")
    check(forked, model)
    for one in (journal, forked, receiver.opened.journal):
        one.close()


def write(
    chance: random.Random,
    model: Model,
    journal: Journal,
    contents: dict[str, int],
    *,
    removals: float = 0.1,
) -> None:
    for _ in range(chance.randrange(1, 8)):
        name, type_id = chance.choice("abcd"), chance.choice([1, 1, 1, 2])
        exists = (type_id, "default", name) in model.state()
        if exists and chance.random() < removals:
            journal.append([model.remove(name, type_id=type_id)])
            continue
        contents[name] += chance.random() < 0.2
        journal.append([model.put(name, type_id=type_id, filler=f',"x":{contents[name]}')])


def follow(receiver: Receiver, journal: Journal) -> None:
    """What a follower does that was away: it continues after its head, or starts over if retention has passed it."""
    if receiver.copy is None:
        if retention_floor(journal) < journal.head - 1:
            receiver.receive(stream_of(journal))
    elif receiver.copy.complete and receiver.copy.journal.head >= retention_floor(journal):
        receiver.receive(stream_of(journal, receiver.copy.journal.head))


def retention_floor(journal: Journal) -> int:
    with journal.read() as view:
        return view.floor


def check(journal: Log, model: Model, versions: int = 1000) -> None:
    with journal.read() as view:
        assert verify.verify(view).differences == []
        mark = view.thinned.get(1, Thinned(0, 0)).upto
        whole = range(max(view.floor, 1), view.head + 1)
        for version in random.Random(view.head).sample(whole, min(len(whole), versions)):
            for type_id in (1, 2):
                found = list(view.at(version).rows(type_id))
                expected = list(model.rows(type_id, at=version))
                if type_id == 2 or version >= mark:
                    assert found == expected
                assert [(*names, content(row.body)) for *names, row in found] == [
                    (*names, content(row.body)) for *names, row in expected
                ]
                assert [row for _, name, row in found] == [
                    view.at(version).get(type_id, "default", name) for _, name, _ in found
                ]
        for name in "abcd":
            for event in view.history(1, "default", name):
                assert event.removed or event.body


def test_backup_continues_after_thinning(journal: Journal, model: Model, tmp_path: Path) -> None:
    journal.register_type("leases")
    renewals(journal, model, 5, "a", "b")
    back_up(journal, tmp_path / "backup")
    renewals(journal, model, 5, "a", "b")
    thinned(journal, 16)
    back_up(journal, tmp_path / "backup")
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    restored = Journal.open(tmp_path / "restored")
    check(restored, model)
    with restored.read() as view:
        assert view.thinned[1].upto == 16
    restored.close()


def back_up(journal: Journal, path: Path) -> None:
    file = BackupFile(path)
    data = stream_of(journal, *file.after)
    stored: list[Stored] = []
    for message in StreamParser().messages(data):
        match message:
            case Header():
                file.begin(message, LEADER)
            case Types(types):
                file.add_types(types)
            case Stored():
                stored.append(message)
    file.store(stored)
    file.close()
