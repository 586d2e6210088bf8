"""Exports, streams, backups and forks of a journal with events whose contents cannot be read have everything else."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rewound.journal import Event, Journal, records
from rewound.journal.backup import BackupFile, restore_backup
from rewound.journal.errors import Damaged
from rewound.journal.keys import pack_offset
from rewound.journal.repair.verify import verify
from rewound.journal.retention import advance
from rewound.journal.stream import Header, Stored
from rewound.journal.transfer import export, fork, restore
from tests.journal.model import Model
from tests.journal.streaming import Receiver, messages, stream_of
from tests.journal.test_damage import flipped
from tests.journal.test_readers_of_many import WITHOUT_CONTENTS
from tests.journal.test_too_large_contents import put, stored


@pytest.fixture(params=WITHOUT_CONTENTS, ids=["large", "no frame", "empty"])
def leader(request: pytest.FixtureRequest, journal: Journal, model: Model) -> Journal:
    """The fourth of eight events was followed by a newer version, the eighth is the newest of its object."""
    journal.register_type("configmaps")
    journal.append([model.put(name) for name in "abcabcab"])
    for event in (model.events[3], model.events[7]):
        put(journal, event, stored(event, request.param))
    return journal


def check(copy: Journal, model: Model, *, floor: int = 0) -> None:
    """It has all that can be read, and is sound."""
    expected = [
        event._replace(facts=b"", body=b"") if event.offset == 4 else event
        for event in model.events
        if event.offset > floor
    ]
    with copy.read() as view:
        assert list(view.events(floor)) == expected
        assert verify(view).differences == []
        rows = {name: (row.offset, row.body) for _, name, row in view.rows(copy.type_id("configmaps"))}
    newest = {event.name: (event.offset, event.body) for event in model.events}
    assert rows == newest


def test_export(leader: Journal, model: Model, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with leader.read() as view:
        export(view, stream)
    stream.seek(0)
    restore(stream, tmp_path / "copy")
    check(Journal.open(tmp_path / "copy"), model)
    assert len(leader.unreadable) == 2


def test_fork(leader: Journal, model: Model, tmp_path: Path) -> None:
    with leader.read() as view:
        fork(view, tmp_path / "copy", 8)
    check(Journal.open(tmp_path / "copy"), model)


def test_standby(leader: Journal, model: Model, tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "copy")
    receiver.receive(stream_of(leader))
    check(receiver.opened.journal, model)
    receiver.receive(stream_of(leader, 8))  # the newest event of the leader is not that of the copy
    leader.append([model.put("c")])
    receiver.receive(stream_of(leader, 8))
    check(receiver.opened.journal, model)
    receiver.close()


def test_standby_that_begins_with_a_state(leader: Journal, model: Model, tmp_path: Path) -> None:
    leader.append([model.put("c"), model.put("c")])
    assert advance(leader, 5).deleted
    receiver = Receiver(tmp_path / "copy")
    receiver.receive(stream_of(leader))
    check(receiver.opened.journal, model, floor=receiver.opened.base)
    receiver.close()


def test_backup(leader: Journal, model: Model, tmp_path: Path) -> None:
    file = BackupFile(tmp_path / "backup")
    for message in messages(stream_of(leader)):
        match message:
            case Header():
                file.begin(message, "https://leader")
            case Stored():
                file.store([message])
    file.close()
    restore_backup(tmp_path / "backup", tmp_path / "copy")
    check(Journal.open(tmp_path / "copy"), model)


def test_event_of_another_program_without_escapes_is_copied_with_them(
    journal: Journal, model: Model, tmp_path: Path
) -> None:
    journal.register_type("configmaps")
    event = model.put("a")
    journal.append([event])
    body = event.body.replace(b"{", b'{"a":"<&>",', 1)
    put(journal, event, records.encode_event(pack_offset(1), event._replace(body=body)))
    with journal.read() as view:
        fork(view, tmp_path / "copy", 1)
        stream = io.BytesIO()
        export(view, stream)
    stream.seek(0)
    restore(stream, tmp_path / "other")
    found: list[Event] = []
    for name in ("copy", "other"):
        with Journal.open(tmp_path / name).read() as view:
            found += view.events(0)
    assert found[0] == found[1]
    assert found[0].body == body.replace(b"<&>", rb"\u003c\u0026\u003e")


def test_damaged_event_is_not_copied(journal: Journal, model: Model, tmp_path: Path) -> None:
    journal.register_type("configmaps")
    events = [model.put(name) for name in "abc"]
    journal.append(events)
    put(journal, events[1], flipped(records.encode_event(pack_offset(2), events[1])))
    with pytest.raises(Damaged), journal.read() as view:
        export(view, io.BytesIO())
    with pytest.raises(Damaged), journal.read() as view:
        fork(view, tmp_path / "copy", 3)
    with pytest.raises(Damaged):
        stream_of(journal)
