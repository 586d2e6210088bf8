"""What earlier releases stored is read, appended to and followed; what later ones may store is refused in a sentence.

`formats/RELEASE.tar.xz` has a data folder with events, a removed object and a snapshot, an export, a backup and the
stream that a standby gets. 0.9.0 and 0.10.0 had no backups and streams. A release adds its own:

    python -m tests.journal.test_formats_of_releases 0.N.0
"""

from __future__ import annotations

import io
import lzma
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

from rewound.journal import Event, Journal, snapshot_writer, transfer
from rewound.journal.backup import MAGIC as BACKUP
from rewound.journal.backup import BackupFile, restore_backup
from rewound.journal.copy import promote
from rewound.journal.errors import NewerLayout
from rewound.journal.files import identity
from rewound.journal.repair import verify
from rewound.journal.stream import MAGIC as STREAM
from rewound.journal.stream import Source, StreamParser
from tests.journal.streaming import Receiver, parts
from tests.journal.test_backup import receive

FORMATS = Path(__file__).parent / "formats"
RELEASES = ("0.9.0", "0.10.0", "0.11.0")  # the last two, and the one that is being made
TYPES = ("configmaps", "pods")
NOON = 1_700_000_000_000_000


def events() -> list[Event]:
    """Twelve events: objects of two types, changed and removed, one with a reason, which is the newest layout."""
    names = ["a", "b", "c", "a", "b", "a", "c", "d", "d", "a", "c", "e"]
    newest: dict[tuple[int, str], int] = {}
    found = []
    for offset, name in enumerate(names, 1):
        type_id, removed = 1 + (name in "cd"), offset in (5, 11)
        previous = newest.get((type_id, name), 0)
        found.append(
            Event(
                offset=offset,
                type_id=type_id,
                verb="delete" if removed else "update" if previous else "create",
                namespace="default",
                name=name,
                previous=previous,
                removed=removed,
                time=NOON + offset,
                user="alice",
                manager="tests",
                facts=b"facts",
                body=b'{"metadata":{"name":"%b","resourceVersion":"%d"}}' % (name.encode(), offset),
            )
        )
        newest[type_id, name] = offset
    return found


def write(output: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journal = Journal.open(folder / "folder")
        journal.register_types(TYPES)
        all_events = events()
        all_events[-1] = all_events[-1]._replace(reason="rollback to 3")
        journal.append(all_events[:6])
        for _ in snapshot_writer.take(journal):
            pass
        journal.append(all_events[6:])
        with journal.read() as reading, (folder / "export").open("wb") as stream:
            transfer.export(reading, stream)
        sent = b"".join(parts(Source(journal, None, 0), journal.head))
        (folder / "stream").write_bytes(sent)
        backup = BackupFile(folder / "backup")
        receive(backup, sent)
        backup.close()
        journal.close()
        pack(folder, output)


def pack(folder: Path, output: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(one for one in folder.rglob("*") if one.is_file() and "lock" not in one.name):
            member = tarfile.TarInfo(str(path.relative_to(folder)))
            member.size = path.stat().st_size
            archive.addfile(member, io.BytesIO(path.read_bytes()))
    output.write_bytes(lzma.compress(packed.getvalue(), preset=9))


@pytest.fixture(params=RELEASES)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with what a release wrote."""
    with tarfile.open(FORMATS / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_data_folder_is_read_and_appended_to(stored: Path) -> None:
    check(Journal.open(stored / "folder"))
    journal = Journal.open(stored / "folder")
    more = events()[9]._replace(offset=13, previous=10, time=NOON + 13)
    journal.append([more])
    with journal.read() as view:
        row = view.get(1, "default", "a")
        assert row is not None and row.offset == 13
        assert verify.verify(view).differences == []
    journal.close()


def test_export_is_imported(stored: Path) -> None:
    with (stored / "export").open("rb") as stream:
        transfer.restore(stream, stored / "imported")
    check(Journal.open(stored / "imported"))


def test_backup_is_restored(stored: Path) -> None:
    for backup in stored.glob("backup"):
        restore_backup(backup, stored / "restored")
        check(Journal.open(stored / "restored"))


def test_stream_of_a_leader_is_followed(stored: Path) -> None:
    for stream in stored.glob("stream"):
        receiver = Receiver(stored / "copy")
        receiver.receive(stream.read_bytes())
        receiver.close()
        promote(stored / "copy")
        check(Journal.open(stored / "copy"))


def check(journal: Journal) -> None:
    """That a journal has what was written, now and at the snapshot; close it."""
    expected = events()
    with journal.read() as view:
        assert (view.head, journal.types()) == (12, {"configmaps": 1, "pods": 2})
        assert verify.verify(view).differences == []
        found = [view.event(offset) for offset in range(1, 13)]
        assert [one and one._replace(reason="") for one in found] == expected
        for at in (3, 6, 12):
            newest = {(one.type_id, one.name): one for one in expected[:at]}
            rows = [(kind, name, row.body) for kind in (1, 2) for _, name, row in view.at(at).rows(kind)]
            assert sorted(rows) == sorted(
                (kind, name, one.body) for (kind, name), one in newest.items() if not one.removed
            )
    journal.close()


SENTENCE = r"layout 2 and this release reads up to 1: use the newer release that wrote it"


def test_later_stream_is_refused_in_a_sentence() -> None:
    with pytest.raises(NewerLayout, match=f"^the stream has {SENTENCE}"):
        list(StreamParser().messages(STREAM.replace(b"1", b"2") + b"something else"))


def test_later_backup_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "backup").write_bytes(BACKUP.replace(b"1", b"2") + b"something else")
    with pytest.raises(NewerLayout, match=f"^the backup has {SENTENCE}"):
        restore_backup(tmp_path / "backup", tmp_path / "restored")


def test_later_data_folder_is_refused_in_a_sentence(tmp_path: Path) -> None:
    Journal.open(tmp_path).close()
    file = tmp_path / identity.FILE
    file.write_bytes(file.read_bytes().replace(b"rewound identity\0\1", b"rewound identity\0\2"))
    with pytest.raises(NewerLayout, match=f"^the file identity in .* has {SENTENCE}"):
        Journal.open(tmp_path)


if __name__ == "__main__":
    write(FORMATS / f"{sys.argv[1]}.tar.xz")
