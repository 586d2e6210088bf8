"""A cut drops the oldest events of one namespace or object: everything else, and everything later, stays exact."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from rewound.journal import Journal, keys, retention
from rewound.journal.cuts import MOST_CUTS, MOST_OBJECTS, bounded, cut, scope_of
from rewound.journal.errors import Compacted
from rewound.journal.records import Cut, decode_cuts, encode_cuts
from rewound.journal.repair.recover import recover
from rewound.journal.repair.verify import verify
from rewound.journal.snapshot_writer import take
from rewound.journal.stream import Source
from rewound.journal.thinning import forget
from rewound.journal.transfer import export, fork, restore
from tests.journal.model import Model


def write(journal: Journal, model: Model, count: int, seed: int) -> None:
    random = Random(seed)
    for _ in range(count):
        namespace, name = random.choice(["noisy", "quiet"]), random.choice("abc")
        exists = (1, namespace, name) in model.state()
        event = model.remove if exists and random.random() < 0.2 else model.put
        journal.append([event(name, namespace=namespace)])


def check_exact(journal: Journal, model: Model, upto: int, namespace: str = "noisy", name: str = "") -> None:
    """All versions since the cut are those of the model, and before it those of all other objects."""
    with journal.read() as view:
        assert verify(view).differences == []
        for version in range(view.floor, view.head + 1):
            wanted = {(space, other): row for space, other, row in model.rows(1, at=version)}
            found = {(space, other): row for space, other, row in view.at(version).rows(1)}
            if version < upto:
                own = [one for one in wanted if one[0] == namespace and name in ("", one[1])]
                for key in own:
                    assert found.pop(key, wanted[key]) == wanted.pop(key)
            assert found == wanted, version
            for (space, other), row in wanted.items():
                assert view.at(version).get(1, space, other) == row


@pytest.mark.parametrize("seed", range(6))
def test_what_is_left_is_exact(journal: Journal, model: Model, tmp_path: Path, seed: int) -> None:
    journal.register_type("configmaps")
    write(journal, model, 60, seed)
    list(take(journal))
    write(journal, model, 60, seed + 100)
    retention.advance(journal, 15)
    before = len(model.events)
    assert sum(cut(journal, scope_of(1, "noisy"), 70, max_events=1 + seed * 3)) > 10
    check_exact(journal, model, 70)
    write(journal, model, 20, seed + 200)
    assert sum(cut(journal, scope_of(1, "noisy", "a"), before)) > 0
    with journal.read() as view:
        fork(view, tmp_path / "fork", view.head)
        with (tmp_path / "file").open("wb") as stream:
            export(view, stream)
    with (tmp_path / "file").open("rb") as stream:
        restore(stream, tmp_path / "restored")
    for folder in ("fork", "restored"):
        copied = Journal.open(tmp_path / folder)
        check_exact(copied, model, before)
        with copied.read() as view:
            assert set(view.cuts) == {scope_of(1, "noisy"), scope_of(1, "noisy", "a")}
        copied.close()
    sum(forget(journal, 1, before))
    retention.advance(journal, before)
    check_exact(journal, model, before)
    journal.close()
    recover(journal.path, tmp_path / "recovered")
    recovered = Journal.open(tmp_path / "recovered")
    check_exact(recovered, model, before)
    recovered.close()


def test_oldest_event_that_is_left_says_that_others_were_dropped(journal: Journal, model: Model) -> None:
    journal.register_type("configmaps")
    events = [
        model.put("a"),
        model.put("b"),
        model.put("a"),
        model.put("a"),
        model.remove("b"),
        model.put("a"),
    ]
    journal.append(
        [events[0], events[1], events[2]._replace(reason="known; field manager guessed"), *events[3:]]
    )
    assert sum(cut(journal, scope_of(1, "default", "a"), 3)) == 1
    with journal.read() as view:
        first, second, _ = view.history(1, "default", "a")
        assert first.is_cut and first.had_before and not first.previous and first.is_guess
        assert first.reason == "known; older versions were dropped to keep --max-disk; field manager guessed"
        assert not second.is_cut and second.previous == 3
        assert not any(event.is_cut for event in view.history(1, "default", "b"))
        assert view.cut_of(keys.of_object(1, "default", "a")) == 3
        assert view.cut_of(keys.of_object(1, "default", "ab")) == 0
        assert view.thinned[1][:] == (3, 1, True)
    assert sum(cut(journal, scope_of(1, "default"), 5)) == 3  # the removal too, with what it removed
    with journal.read() as view:
        assert [event.offset for event in view.all_events(0)] == [4, 6]


def test_object_whose_event_cannot_be_read_is_left(journal: Journal, model: Model) -> None:
    journal.register_type("configmaps")
    journal.append([model.put(name) for name in "ababab"])
    database = journal.environment.databases.events
    journal.environment.write(lambda txn: txn.put(keys.pack_offset(3), b"x" * 50, db=database))
    assert sum(cut(journal, scope_of(1, "default"), 4)) == 1
    with journal.read() as view:
        assert [event.offset for event in view.history(1, "default", "b")] == [4, 6]


def test_followers_that_were_away_for_longer_start_over(journal: Journal, model: Model) -> None:
    journal.register_type("configmaps")
    journal.append([model.put(name) for name in "aabbaa"])
    source = Source(journal, 2)
    sum(cut(journal, scope_of(1, "default", "a"), 5))
    with pytest.raises(Compacted):
        Source(journal, 2)
    with pytest.raises(Compacted):
        source.events(6, type("Ends", (), {"may_end": lambda *_: True})())


def test_snapshot_that_is_being_taken_ends_when_a_cut_passes_it(journal: Journal, model: Model) -> None:
    journal.register_type("configmaps")
    journal.append([model.put(name) for name in "aabbcc"])
    steps = take(journal, chunk_rows=1)
    next(steps)
    journal.append([model.put(name) for name in "abc"])
    sum(cut(journal, scope_of(1, "default"), 8))
    assert list(steps) == []
    check_exact(journal, model, 8, "default")


def test_marks_are_bounded() -> None:
    marks = {scope_of(1, "noisy", f"n{number}"): Cut(number, 1, 10) for number in range(MOST_OBJECTS + 1)}
    assert bounded(marks) == {
        scope_of(1, "noisy"): Cut(MOST_OBJECTS, MOST_OBJECTS + 1, 10 * (MOST_OBJECTS + 1))
    }
    marks[scope_of(1, "noisy")] = Cut(5, 1, 10)
    assert bounded(marks) == {
        scope_of(1, "noisy"): Cut(MOST_OBJECTS, MOST_OBJECTS + 2, 10 * (MOST_OBJECTS + 2))
    }
    few = {
        scope_of(1, "noisy"): Cut(5, 1, 10),
        **{scope_of(1, "noisy", f"n{at}"): Cut(at, 1, 10) for at in (4, 6)},
    }
    assert bounded(few) == {scope_of(1, "noisy"): Cut(5, 2, 20), scope_of(1, "noisy", "n6"): Cut(6, 1, 10)}
    many = {scope_of(1, f"n{number}"): Cut(number, 1, 10) for number in range(MOST_CUTS + 50)}
    assert set(bounded(many)) == set([*many][50:])
    assert decode_cuts(encode_cuts(many)) == many
