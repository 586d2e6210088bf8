from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import lmdb
import pytest

from rewound.journal import Journal, keys, log, records
from rewound.journal.environment import Databases
from rewound.journal.errors import (
    AlreadyOpen,
    CannotOpen,
    DamagedStructure,
    DamagedTail,
    IncompleteFolder,
    NewerLayout,
    NoJournal,
    NotAJournal,
    WrongDialect,
)
from rewound.journal.files import identity, opening
from rewound.journal.files.data_file import DATA
from rewound.journal.files.meta_pages import BRANCH
from rewound.journal.files.pages import NODE_SIZE, PageFile, Walk, database_of, free_pages
from rewound.journal.files.structure import FREE, MAIN, audit, check_structure
from rewound.journal.repair import verify
from tests.journal.model import Model


def test_dialect_of_a_folder_cannot_change(tmp_path: Path) -> None:
    Journal.open(tmp_path, dialect="kubernetes").close()
    with pytest.raises(WrongDialect, match="start with --dialect kubernetes, or use another data folder"):
        Journal.open(tmp_path, dialect="cluster")
    again = Journal.open(tmp_path, dialect="kubernetes")
    assert again.dialect == "kubernetes"
    again.close()


def test_reader_takes_the_stored_dialect(tmp_path: Path) -> None:
    Journal.open(tmp_path, dialect="kubernetes").close()
    reader = Journal.open(tmp_path, readonly=True)
    assert reader.dialect == "kubernetes"
    reader.close()


def test_second_writing_process_is_refused(tmp_path: Path) -> None:
    first = Journal.open(tmp_path)
    script = (
        "from pathlib import Path; from rewound.journal import Journal\n"
        f"Journal.open(Path({str(tmp_path)!r}))"
    )
    second = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert second.returncode != 0
    assert "AlreadyOpen" in second.stderr and "stop that server first" in second.stderr
    with pytest.raises(AlreadyOpen):
        Journal.open(tmp_path)
    first.close()
    Journal.open(tmp_path).close()


def test_reader_of_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoJournal, match="start the server once"):
        Journal.open(tmp_path / "nothing", readonly=True)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("content", [b"", b"no journal at all" * 1000, b"\0" * 8192])
def test_file_that_is_not_a_journal_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.mdb").write_bytes(content)
    for readonly in (False, True):
        with pytest.raises(NotAJournal, match="restore the folder from a backup"):
            Journal.open(tmp_path, readonly=readonly)
    assert (tmp_path / "data.mdb").read_bytes() == content


def test_newer_layout_is_refused_and_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "LAYOUT", 9)
    Journal.open(tmp_path).close()
    monkeypatch.undo()
    with pytest.raises(NewerLayout, match=r"layout 9 .* use the newer release"):
        Journal.open(tmp_path)


def written(path: Path, model: Model) -> None:
    journal = Journal.open(path)
    for i in range(20):
        journal.append([model.put(f"n{i:02d}", filler="x" * 3000)])
    journal.append([model.remove("n03")])
    journal.close()


def raw(path: Path, database: str, key: bytes, value: bytes | None) -> None:
    """Change a record without the journal's checks."""
    env = lmdb.open(str(path), max_dbs=10)
    handle = env.open_db(database.encode())
    with env.begin(write=True) as txn:
        if value is None:
            txn.delete(key, db=handle)
        else:
            txn.put(key, value, db=handle)
    env.close()


def test_damaged_tail_is_refused_with_its_offset(tmp_path: Path, model: Model) -> None:
    written(tmp_path, model)
    data = bytearray((tmp_path / "data.mdb").read_bytes())
    damaged = data.index(model.events[11].body)
    data[damaged + 100] ^= 4
    (tmp_path / "data.mdb").write_bytes(data)
    with pytest.raises(DamagedTail, match=r"damaged at offset 12 .*restore it from a backup") as raised:
        Journal.open(tmp_path)
    assert raised.value.offset == 12
    assert isinstance(raised.value, CannotOpen)


@pytest.mark.parametrize(
    ("database", "key", "value", "offset", "why"),
    [
        ("events", keys.pack_offset(20), b"\1garbage", 20, "event 20 does not match its checksum"),
        (
            "state",
            keys.of_object(1, "default", "n05"),
            None,
            6,
            "the state of type 1, default/n05 is missing",
        ),
        ("by_type", keys.by_type(1, 9), None, 9, "the index by type does not have event 9"),
        ("by_object", keys.by_object(keys.of_object(1, "default", "n07"), 8), None, 8, "the index by object"),
        ("counts", keys.pack_type(1), b"\0" * 12, 21, "the count of type 1,  does not match its checksum"),
    ],
)
def test_inconsistent_tail_is_refused(
    tmp_path: Path, model: Model, database: str, key: bytes, value: bytes | None, offset: int, why: str
) -> None:
    written(tmp_path, model)
    raw(tmp_path, database, key, value)
    with pytest.raises(DamagedTail, match=f"damaged at offset {offset} .{why}"):
        Journal.open(tmp_path)


def test_row_of_a_removed_object_in_the_tail_is_refused(tmp_path: Path, model: Model) -> None:
    written(tmp_path, model)
    key = keys.of_object(1, "default", "n03")
    raw(tmp_path, "state", key, records.encode_row(key, 4, b"", b"{}"))
    with pytest.raises(DamagedTail, match=r"damaged at offset 21 .*was removed and is still there"):
        Journal.open(tmp_path)


@pytest.mark.parametrize("pages", [10, 20, 40])
def test_truncated_file_raises_damaged(tmp_path: Path, model: Model, pages: int) -> None:
    written(tmp_path, model)
    data = tmp_path / "data.mdb"
    with data.open("r+b") as file:
        file.truncate(data.stat().st_size - pages * 4096)
    for readonly in (True, False):
        with pytest.raises(CannotOpen):
            Journal.open(tmp_path, readonly=readonly)


def test_damaged_journal_opens_without_check_of_the_tail(tmp_path: Path, model: Model) -> None:
    written(tmp_path, model)
    raw(tmp_path, "events", keys.pack_offset(20), b"\1garbage")
    journal = Journal.open(tmp_path, readonly=True, check_tail=False)
    with journal.read() as view:
        report = verify.verify(view)
    journal.close()
    assert report.differences[0] == "event 20 does not match its checksum"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"type:things", None),
        (b"type:thinge", b"\0\1"),
        (keys.FLOOR, b"\0" * 7 + b"\2"),
        (keys.CHECK, b"zero"),
    ],
)
def test_changed_record_of_meta_is_refused(tmp_path: Path, key: bytes, value: bytes | None) -> None:
    """Without a checksum, a flipped bit in the name of a type would hide all its objects."""
    journal = Journal.open(tmp_path)
    journal.register_type("things")
    journal.close()
    raw(tmp_path, "meta", key, value)
    record_in_identity(tmp_path)
    for readonly in (False, True):
        with pytest.raises(IncompleteFolder, match="its database meta does not match its checksum"):
            Journal.open(tmp_path, readonly=readonly)


def record_in_identity(path: Path) -> None:
    """As if the newest commit were one of this release."""
    who = identity.read(path)
    assert who is not None
    identity.create(path, opening.identity_after_close(path / DATA, who))


def written_with_a_type(path: Path, model: Model) -> None:
    written(path, model)
    journal = Journal.open(path)
    journal.register_type("things")
    journal.close()


def written_by_an_earlier_release(path: Path, changes: dict[bytes, bytes]) -> None:
    """A release that knows neither the identity file nor the checksum of meta writes to the folder."""
    for key, value in changes.items():
        raw(path, "meta", key, value)


@pytest.mark.parametrize(
    "changes",
    [
        {b"type:others": b"\0\2"},
        {keys.FLOOR: keys.pack_offset(2)},
        {b"type:others": b"\0\2", b"type:more": b"\0\3", keys.FLOOR: keys.pack_offset(3)},
    ],
)
def test_folder_that_an_earlier_release_wrote_to_meanwhile_is_opened(
    tmp_path: Path, model: Model, changes: dict[bytes, bytes]
) -> None:
    written_with_a_type(tmp_path, model)
    written_by_an_earlier_release(tmp_path, changes)
    for readonly in (True, False, True):
        journal = Journal.open(tmp_path, readonly=readonly)
        assert changes.items() <= journal._meta().items()
        journal.close()
    record_in_identity(tmp_path)  # the writer above has stored the right checksum
    Journal.open(tmp_path).close()


@pytest.mark.parametrize(
    "changes", [{b"type:things": b"\0\3"}, {b"type:others": b"\0\1"}, {keys.DIALECT: b"kubernetes"}]
)
def test_change_of_meta_that_no_release_makes_is_refused(
    tmp_path: Path, model: Model, changes: dict[bytes, bytes]
) -> None:
    written_with_a_type(tmp_path, model)
    written_by_an_earlier_release(tmp_path, changes)
    with pytest.raises(IncompleteFolder, match="its database meta does not match its checksum"):
        Journal.open(tmp_path)


class GrowsBeforeReading:
    """An environment whose file a writer extends just before a reader's transaction begins."""

    def __init__(self, journal: Journal, model: Model) -> None:
        self._journal, self._model = journal, model

    def begin(self) -> Any:
        self._journal.append([self._model.put(f"long{i}", filler=" " * 9000) for i in range(50)])
        return self._journal.environment._env.begin()


def test_file_that_grows_while_it_is_opened_is_not_refused(tmp_path: Path, model: Model) -> None:
    journal = Journal.open(tmp_path)
    check_structure(GrowsBeforeReading(journal, model), tmp_path / DATA, Databases._fields)
    journal.close()


def test_damaged_page_outside_of_the_tail_is_refused_at_opening(tmp_path: Path, model: Model) -> None:
    """LMDB would read it later, and end the process."""
    written(tmp_path, model)
    data = bytearray((tmp_path / "data.mdb").read_bytes())
    for at in range(8192, len(data), 4096):
        if data[at + 10] == 2:  # a leaf page
            data[at + 14] ^= 0x10  # where its nodes begin
    (tmp_path / "data.mdb").write_bytes(data)
    for readonly in (False, True):
        with pytest.raises(DamagedStructure, match=r"page \d+ \(.*recover"):
            Journal.open(tmp_path, readonly=readonly)


@pytest.mark.parametrize("child", [0, 1])
def test_tree_that_leads_to_a_meta_page_is_refused_at_opening(
    tmp_path: Path, model: Model, child: int
) -> None:
    journal = Journal.open(tmp_path)
    journal.append([model.put(f"n{i}") for i in range(100)])
    journal.close()
    with PageFile(tmp_path / DATA) as file:
        data = bytearray(file.path.read_bytes())
        meta = file.newest_meta()
        (leaf,) = Walk(file, MAIN, meta.main, meta.last_page).leaves()
        events = next(database_of(node).root for node in leaf.nodes if node.key == b"events")
        at = events * file.page_size
    assert data[at + 10] == BRANCH
    last = int.from_bytes(data[at + 12 : at + 14], "little") - 2
    node = at + int.from_bytes(data[at + last : at + last + 2], "little")
    data[node : node + 6] = child.to_bytes(6, "little")
    (tmp_path / DATA).write_bytes(data)
    for readonly in (False, True):
        with pytest.raises(DamagedStructure, match=f"page {child} .events.: there is no page {child}"):
            Journal.open(tmp_path, readonly=readonly)


def test_unused_page_does_not_refuse_a_folder(tmp_path: Path, model: Model) -> None:
    """It wastes space and harms nothing; `verify` reports it."""
    written(tmp_path, model)
    file = PageFile(tmp_path / DATA)
    meta = file.newest_meta()
    leaf = next(Walk(file, FREE, meta.free, meta.last_page, by_number=True).leaves())
    node = max(leaf.nodes, key=lambda node: free_pages(node.value))
    at = leaf.number * file.page_size + node.position + NODE_SIZE + len(node.key)
    data = bytearray(file.path.read_bytes())
    data[at] -= 1  # how many free pages this record has
    file.path.write_bytes(data)
    assert audit(file, Databases._fields, file.newest_meta()).unused == 1
    file.close()
    Journal.open(tmp_path).close()
