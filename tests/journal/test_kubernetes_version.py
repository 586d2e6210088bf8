"""A journal records the version of Kubernetes whose form its objects have, and so do its copies."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rewound.journal import Journal, keys
from rewound.journal.backup import BackupFile, restore_backup
from rewound.journal.transfer import export, fork, restore
from tests.journal.model import Model
from tests.journal.streaming import Receiver, stream_of
from tests.journal.test_backup import receive
from tests.journal.test_stream import fill


@pytest.fixture
def migrated(journal: Journal, model: Model) -> Journal:
    """One that was 1.25, and became 1.36 when it had 40 of its 60 events."""
    fill(journal, model, 40)
    assert not journal.kubernetes
    journal.begin_migration("1.36")
    journal.end_migration()
    fill(journal, model, 20)
    return journal


def copy_into(path: Path, data: bytes) -> None:
    receiver = Receiver(path)
    receiver.receive(data)
    receiver.close()


def recorded(path: Path) -> tuple[str, bool]:
    journal = Journal.open(path, readonly=True)
    try:
        return journal.kubernetes, journal.is_migrating
    finally:
        journal.close()


def test_copies_record_the_version(migrated: Journal, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with migrated.read() as view:
        export(view, stream)
        fork(view, tmp_path / "fork", migrated.head)
    restore(io.BytesIO(stream.getvalue()), tmp_path / "export")
    copy_into(tmp_path / "standby", stream_of(migrated))
    file = BackupFile(tmp_path / "backup")
    receive(file, stream_of(migrated))
    file.close()
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    for name in ("fork", "export", "standby", "restored"):
        assert recorded(tmp_path / name) == ("1.36", False), name


def test_copy_of_a_moment_before_the_migration_needs_it(migrated: Journal, tmp_path: Path) -> None:
    with migrated.read() as view:
        fork(view, tmp_path / "fork", 20)
    assert recorded(tmp_path / "fork") == ("1.36", True)
    file = BackupFile(tmp_path / "backup")
    receive(file, stream_of(migrated))
    file.close()
    restore_backup(tmp_path / "backup", tmp_path / "restored", offset=38)
    assert recorded(tmp_path / "restored") == ("1.36", True)


def test_backup_that_is_continued_after_an_upgrade_has_the_new_version(
    journal: Journal, model: Model, tmp_path: Path
) -> None:
    fill(journal, model, 20)
    file = BackupFile(tmp_path / "backup")
    receive(file, stream_of(journal))
    after = journal.head
    journal.begin_migration("1.30")
    fill(journal, model, 5)
    journal.end_migration()
    receive(file, stream_of(journal, after))
    file.close()
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    assert recorded(tmp_path / "restored") == ("1.30", False)
    restore_backup(tmp_path / "backup", tmp_path / "earlier", offset=after)
    assert recorded(tmp_path / "earlier") == ("", False)


def test_standby_takes_the_new_version_of_its_leader(journal: Journal, model: Model, tmp_path: Path) -> None:
    fill(journal, model, 20)
    copy_into(tmp_path / "standby", stream_of(journal))
    after = journal.head
    journal.begin_migration("1.30")
    fill(journal, model, 5)
    journal.end_migration()
    copy_into(tmp_path / "standby", stream_of(journal, after))
    assert recorded(tmp_path / "standby") == ("1.30", False)


@pytest.mark.parametrize("value", [b"2.0", b"1.x", b"1.36.4", b"\xff"])
def test_wrong_record_is_found(journal: Journal, tmp_path: Path, value: bytes) -> None:
    journal.put_meta({keys.KUBERNETES: value})
    path = journal.path
    journal.close()
    with pytest.raises(Exception, match="has a wrong record"):
        Journal.open(path, readonly=True)
