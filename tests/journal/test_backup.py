"""An interrupted backup can be continued, and restored to any of its offsets and times."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rewound.journal import Event, Journal, retention, stream
from rewound.journal.backup import BackupFile, BadBackup, restore_backup
from rewound.journal.batch import Batch
from rewound.journal.batching import MOST_BYTES
from rewound.journal.errors import Diverged, JournalExists, StorageFailed
from rewound.journal.repair import verify
from rewound.journal.stream import Commit, Header, Stored, StreamParser, Types
from tests.journal.model import NOON, Model
from tests.journal.streaming import LEADER, stored_events, stream_of
from tests.journal.test_stream import fill


def receive(file: BackupFile, data: bytes) -> None:
    """Does what a follower does with a stream."""
    pending: list[Stored] = []
    for message in StreamParser().messages(data):
        match message:
            case Header():
                file.begin(message, LEADER)
            case Types(types):
                file.add_types(types)
            case Stored():
                pending.append(message)
                if message.offset <= file.base:
                    file.store(pending)
                    pending = []
            case Commit() if pending:
                file.store(pending)
                pending = []


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PART_EVENTS", 5)


@pytest.fixture
def filled(journal: Journal, model: Model) -> Journal:
    fill(journal, model, 90)
    return journal


def make_backup(journal: Journal, path: Path) -> None:
    file = BackupFile(path)
    receive(file, stream_of(journal, *file.after))
    file.close()


def check_restored(folder: Path, journal: Journal, model: Model, head: int) -> None:
    with journal.read() as view:
        cluster = view.cluster_id
    opened = Journal.open(folder)
    try:
        with opened.read() as view:
            assert verify.verify(view).differences == []
            assert (view.head, view.cluster_id) == (head, cluster)
            assert [one.start for one in view.timelines] == [head]
            for kind in (1, 2):
                assert list(view.rows(kind)) == list(model.rows(kind, at=head))
            floor = view.floor
        assert stored_events(opened, floor) == stored_events(journal, floor, head)
    finally:
        opened.close()


@pytest.mark.parametrize(("floor", "offsets"), [(0, [1, 17, 90]), (40, [45, 46, 77, 90])])
def test_restore_to_any_offset(
    floor: int, offsets: list[int], filled: Journal, model: Model, tmp_path: Path
) -> None:
    retention.advance(filled, floor)
    make_backup(filled, tmp_path / "b")
    for offset in offsets:
        found = restore_backup(tmp_path / "b", tmp_path / str(offset), offset=offset)
        # The event at the base may have been followed by others of its object.
        assert found.head == offset or offset == 45
        check_restored(tmp_path / str(offset), filled, model, found.head)


def test_restore_to_a_time_and_to_the_end(filled: Journal, model: Model, tmp_path: Path) -> None:
    make_backup(filled, tmp_path / "b")
    found = restore_backup(tmp_path / "b", tmp_path / "then", time=NOON + 1000 * 33 + 999)
    assert (found.head, found.time) == (33, NOON + 33000)
    check_restored(tmp_path / "then", filled, model, 33)
    restore_backup(tmp_path / "b", tmp_path / "end")
    check_restored(tmp_path / "end", filled, model, 90)


def test_restore_holds_few_large_events_at_once(
    journal: Journal, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events of a megabyte of one letter are a kilobyte in the file, and a megabyte each in memory."""
    journal.register_type("configmaps")
    for number in range(12):
        filler = f',"data":"{"x" * (1 << 20)}"'
        journal.append([model.put(f"n{number}", filler=filler)])
    make_backup(journal, tmp_path / "b")
    assert (tmp_path / "b").stat().st_size < 1 << 20
    held: list[int] = []
    encode = Journal.encode

    def measured(self: Journal, events: Sequence[Event], **more: Any) -> Batch:
        held.append(sum(len(event.body) for event in events))
        return encode(self, events, **more)

    monkeypatch.setattr(Journal, "encode", measured)
    restore_backup(tmp_path / "b", tmp_path / "end")
    assert sum(held) > 12 << 20
    assert max(held) <= MOST_BYTES + (1 << 20) + 1000


@pytest.mark.parametrize("floor", [0, 40], ids=["whole", "compacted"])
def test_backup_cut_off_anywhere_continues(floor: int, filled: Journal, model: Model, tmp_path: Path) -> None:
    """Streams that break off, and a file that was truncated, as after a kill."""
    retention.advance(filled, floor)
    generator, path, runs = random.Random(floor + 1), tmp_path / "b", 0
    while True:
        file = BackupFile(path)
        after, base = file.after
        if after == filled.head:
            break
        sent = stream_of(filled, after, base)
        receive(file, sent[: generator.randrange(len(sent) // 3 + 1000)])
        file.close()
        if path.exists() and runs % 2:
            os.truncate(path, max(0, path.stat().st_size - generator.randrange(300)))
        runs += 1
    file.close()
    assert runs > 3
    restore_backup(path, tmp_path / "restored")
    check_restored(tmp_path / "restored", filled, model, 90)


def test_end_that_a_power_failure_left_empty_is_cut_off(
    filled: Journal, model: Model, tmp_path: Path
) -> None:
    path = tmp_path / "b"
    make_backup(filled, path)
    with path.open("ab") as file:
        file.write(bytes(5000))
    restore_backup(path, tmp_path / "restored")
    make_backup(filled, path)
    restore_backup(path, tmp_path / "again")
    check_restored(tmp_path / "again", filled, model, 90)


def test_damage_is_named_and_what_is_before_it_can_be_restored(
    filled: Journal, model: Model, tmp_path: Path
) -> None:
    path = tmp_path / "b"
    make_backup(filled, path)
    content = bytearray(path.read_bytes())
    content[-2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadBackup, match="is damaged at byte"):
        restore_backup(path, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    with pytest.raises(BadBackup, match="is damaged at byte"):
        BackupFile(path)
    restore_backup(path, tmp_path / "restored", offset=20)
    check_restored(tmp_path / "restored", filled, model, 20)


def test_full_disk_leaves_what_was_there(
    filled: Journal, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = BackupFile(tmp_path / "b")
    sound, written = os.write, 0

    def full(handle: int, data: bytes) -> int:
        nonlocal written
        written += 1
        if written > 4:
            raise OSError(28, "No space left on device")
        return sound(handle, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFailed):
        receive(file, stream_of(filled))
    monkeypatch.undo()
    monkeypatch.setattr(stream, "PART_EVENTS", 5)
    receive(file, stream_of(filled, *file.after))
    file.close()
    restore_backup(tmp_path / "b", tmp_path / "restored")
    check_restored(tmp_path / "restored", filled, model, 90)


def test_backup_of_another_history_is_refused(filled: Journal, model: Model, tmp_path: Path) -> None:
    path = tmp_path / "b"
    make_backup(filled, path)
    restore_backup(path, tmp_path / "other", offset=50)
    other = Journal.open(tmp_path / "other")
    shorter = Model(model.events[:50])
    other.append([shorter.put("x"), shorter.put("y")])
    file = BackupFile(path)
    with pytest.raises(Diverged, match=r"the backup .* and https://leader are two histories since 50"):
        receive(file, stream_of(other, 51))
    file.close()
    other.close()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"offset": 91}, "ends at version 90: give that or a lower one"),
        ({"offset": 44}, "begins with the state at version 45"),
        ({"time": NOON}, "has no event up to then"),
        ({"time": NOON + 30000}, "begins with the state at version 45"),
    ],
)
def test_moments_that_a_backup_does_not_have(
    given: dict[str, int], why: str, filled: Journal, tmp_path: Path
) -> None:
    retention.advance(filled, 40)
    make_backup(filled, tmp_path / "b")
    with pytest.raises(BadBackup, match=why):
        restore_backup(tmp_path / "b", tmp_path / "restored", **given)  # type: ignore[arg-type]
    assert not (tmp_path / "restored").exists()


def test_files_and_folders_that_cannot_be_used(filled: Journal, tmp_path: Path) -> None:
    make_backup(filled, tmp_path / "b")
    restore_backup(tmp_path / "b", tmp_path / "restored")
    with pytest.raises(JournalExists):
        restore_backup(tmp_path / "b", tmp_path / "restored")
    for text in ("something else, and longer than the magic", "short"):
        (tmp_path / "text").write_text(text)
        with pytest.raises(BadBackup, match="is not a backup"):
            BackupFile(tmp_path / "text")
        assert (tmp_path / "text").read_text() == text
    file = BackupFile(tmp_path / "b")
    with pytest.raises(BadBackup, match="being written by another process"):
        BackupFile(tmp_path / "b")
    file.close()
    BackupFile(tmp_path / "empty").close()
    assert not (tmp_path / "empty").exists()
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
