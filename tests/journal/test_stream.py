"""A stream copies all events, bytes and type numbers of a journal, from any offset, even if it breaks off anywhere."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rewound.journal import Event, Journal, retention, stream
from rewound.journal.errors import CannotFollow, Compacted, StandbyFolder
from rewound.journal.frames import BadFrame
from rewound.journal.repair import verify
from rewound.journal.stream import Commit, Header, Source, Stored, Types
from tests.journal.model import Model
from tests.journal.streaming import (
    AnyEnd,
    OnlyEnds,
    Receiver,
    messages,
    offsets,
    parts,
    stored_events,
    stream_of,
)


def fill(journal: Journal, model: Model, count: int) -> None:
    generator = random.Random(count)
    for name in ("configmaps", "leases", "unused"):
        journal.register_type(name)
    events = []
    for _ in range(count):
        name, kind = f"n{generator.randrange(15)}", generator.choice([1, 2])
        there = (kind, "default", name) in model.state()
        removes = there and generator.random() < 0.3
        events.append((model.remove if removes else model.put)(name, type_id=kind))
    journal.append(events)


@pytest.fixture
def filled(journal: Journal, model: Model) -> Journal:
    fill(journal, model, 90)
    return journal


def check_copy(copied: Journal, journal: Journal, model: Model) -> None:
    with journal.read() as view, copied.read() as copy:
        assert verify.verify(copy).differences == []
        assert (copy.head, copy.dialect, copy.cluster_id) == (view.head, view.dialect, view.cluster_id)
        assert copied.types() == journal.types()
        for kind in journal.types().values():
            for at in {max(copy.floor, view.floor), (copy.floor + copy.head) // 2, copy.head}:
                assert list(copy.at(at).rows(kind)) == list(model.rows(kind, at=at))
    assert stored_events(copied, copy_floor(copied)) == stored_events(journal, copy_floor(copied))


def copy_floor(journal: Journal) -> int:
    with journal.read() as view:
        return view.floor


def test_copy_has_the_bytes_of_every_event(filled: Journal, model: Model, tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "copy")
    receiver.receive(stream_of(filled))
    assert stored_events(receiver.opened.journal) == stored_events(filled)
    check_copy(receiver.opened.journal, filled, model)
    receiver.close()


def test_new_follower_of_a_compacted_journal_gets_the_state_first(
    filled: Journal, model: Model, tmp_path: Path
) -> None:
    retention.advance(filled, 40)
    receiver = Receiver(tmp_path / "copy")
    receiver.receive(stream_of(filled))
    copied = receiver.opened.journal
    # A tenth of the kept time is left out: the state at its end is the floor of the copy.
    assert copy_floor(copied) == 45
    check_copy(copied, filled, model)
    retention.advance(filled, 60)
    retention.advance(copied, 60)
    assert stored_events(copied) == stored_events(filled)
    receiver.close()


@pytest.mark.parametrize("floor", [0, 40], ids=["whole", "compacted"])
def test_stream_cut_off_anywhere_continues_where_it_ended(
    floor: int, filled: Journal, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PART_EVENTS", 5)
    generator = random.Random(floor)
    retention.advance(filled, floor)
    path, connections = tmp_path / "copy", 0
    while True:
        receiver = Receiver(path)
        after, base = receiver.query()
        sent = stream_of(filled, after, base)
        if after == filled.head:
            break
        receiver.receive(sent[: generator.randrange(len(sent) // 3 + 1000)])
        if receiver.copy is not None:
            receiver.close()
        connections += 1
    assert connections > 3
    check_copy(receiver.opened.journal, filled, model)
    receiver.close()


def test_state_of_the_base_does_not_change_while_retention_advances(
    filled: Journal, model: Model, tmp_path: Path
) -> None:
    retention.advance(filled, 40)
    sending = parts(Source(filled, None), filled.head)
    began = next(sending)
    retention.advance(filled, 44)
    receiver = Receiver(tmp_path / "copy")
    receiver.receive(b"".join([began, *sending]))
    check_copy(receiver.opened.journal, filled, model)
    receiver.close()


def test_what_retention_has_removed_is_refused(filled: Journal) -> None:
    retention.advance(filled, 40)
    with pytest.raises(Compacted):
        Source(filled, 39)
    with pytest.raises(Compacted):
        Source(filled, 10, 39)
    assert offsets(messages(stream_of(filled, 40)))[0] == 41
    state, events = Source(filled, None), Source(filled, 40)
    retention.advance(filled, 70)
    with pytest.raises(Compacted):
        state.state()
    with pytest.raises(Compacted):
        events.events(filled.head, AnyEnd())


def test_any_flipped_bit_is_found_before_it_is_stored(filled: Journal, tmp_path: Path) -> None:
    generator = random.Random(7)
    sound = stream_of(filled)
    for number in range(40):
        place = generator.randrange(len(sound))
        damaged = bytearray(sound)
        damaged[place] ^= 1 << generator.randrange(8)
        receiver = Receiver(tmp_path / f"copy{number}")
        try:
            # A length that is now larger waits for bytes that never come.
            receiver.receive(bytes(damaged) + bytes(64))
        except BadFrame:
            pass
        else:
            assert receiver.copy is None or receiver.copy.journal.head < filled.head
        if receiver.copy is not None:
            copied = receiver.opened.journal
            assert stored_events(copied) == stored_events(filled, upto=copied.head)
            receiver.close()


def test_lost_and_repeated_frames_are_found(journal: Journal, model: Model) -> None:
    fill(journal, model, 3)
    source = Source(journal, None)
    begin, *events = [source.begin(), *(source.events(head, AnyEnd()) for head in (1, 2, 3))]
    for order in ([0, 2], [0, 0], [1], [0, 2, 1]):
        with pytest.raises(BadFrame):
            messages(begin + b"".join(events[one] for one in order))


def test_commits_stay_whole(journal: Journal, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PART_EVENTS", 5)
    journal.register_type("configmaps")
    journal.append([model.put(f"n{number}") for number in range(120)])
    found = messages(b"".join(parts(Source(journal, None), 120, OnlyEnds(40, 100, 120))))
    assert [message.offset for message in found if isinstance(message, Commit)] == [40, 100, 120]
    assert offsets(found) == list(range(1, 121))
    small = messages(stream_of(journal))
    assert len([message for message in small if isinstance(message, Commit)]) > 4


def test_types_follow_when_they_are_registered(journal: Journal, model: Model, tmp_path: Path) -> None:
    journal.register_type("configmaps")
    source = Source(journal, None)
    begin = source.begin()
    journal.register_types(["widgets.example.com", "gadgets.example.com"])
    beat = source.heartbeat()
    journal.append([model.put("a", type_id=3)])
    found = messages(begin + beat + source.events(1, AnyEnd()))
    assert [type(one) for one in found] == [Header, Types, Commit, Stored, Commit]
    receiver = Receiver(tmp_path / "copy")
    receiver.receive(stream_of(journal))
    assert receiver.opened.journal.types() == {
        "configmaps": 1,
        "widgets.example.com": 2,
        "gadgets.example.com": 3,
    }
    receiver.close()


def test_types_that_only_the_standby_knows_are_empty_there(
    filled: Journal, model: Model, tmp_path: Path
) -> None:
    receiver = Receiver(tmp_path / "copy")
    receiver.receive(stream_of(filled))
    copied = receiver.opened.journal
    copied.register_types(["configmaps", "new.example.com", "newer.example.com"])
    numbers = [copied.type_id(name) for name in ("new.example.com", "newer.example.com")]
    assert len({*numbers, 0, *filled.types().values()}) == 6
    assert copied.types() == filled.types()
    filled.register_type("new.example.com")
    with pytest.raises(CannotFollow, match=r"begun to store new\.example\.com.*start it again"):
        receiver.receive(stream_of(filled, filled.head))
    receiver.close()
    again = Receiver(tmp_path / "copy")
    again.opened.journal.register_types(["new.example.com"])  # as a server does, before the stream begins
    again.receive(stream_of(filled, filled.head))
    assert again.opened.journal.type_id("new.example.com") == filled.type_id("new.example.com")
    again.close()


def test_event_that_does_not_continue_the_copy_is_refused(filled: Journal, tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "copy")
    receiver.receive(stream_of(filled))
    wrong = Event(91, 1, "update", "default", "nobody", 12, False, 1, "u", "m", b"", b"{}")
    copy = receiver.opened
    with pytest.raises(CannotFollow, match="does not continue the journal"):
        copy.write(copy.batch([Stored(91, b"", wrong)]))
    assert copy.journal.head == filled.head
    receiver.close()


def test_folder_of_a_standby_is_not_written_by_others(filled: Journal, tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "copy")
    receiver.receive(stream_of(filled))
    receiver.close()
    with pytest.raises(StandbyFolder, match="rewound promote"):
        Journal.open(tmp_path / "copy")
    Journal.open(tmp_path / "copy", readonly=True).close()
