"""The identity file and the databases must agree; databases are created only in a new folder."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest

from rewound.journal import Journal, keys
from rewound.journal.errors import CannotOpen, IncompleteFolder, LostCommits, WrongIdentity
from rewound.journal.files import identity, opening
from rewound.journal.files.identity import SLOTS
from rewound.journal.files.opening import DRAFT
from rewound.journal.transfer import export, restore
from tests.journal.model import Model


def written(path: Path, events: int = 5) -> Model:
    model = Model()
    journal = Journal.open(path)
    journal.register_type("configmaps")
    for i in range(events):
        journal.append([model.put(f"n{i}")])
    journal.close()
    return model


def raw(path: Path, change: Callable[[Any, Any], None]) -> None:
    """Change a folder without the journal's checks."""
    env = lmdb.open(str(path), max_dbs=10)
    with env.begin(write=True) as txn:
        change(env, txn)
    env.close()


def as_of_an_earlier_release(path: Path) -> None:
    (path / identity.FILE).unlink()
    remove_records(path)


def remove_records(path: Path) -> None:
    """Remove the records that earlier releases did not have."""
    for key in (keys.CLUSTER_ID, keys.CHECK):
        raw(path, lambda env, txn, key=key: txn.delete(key, db=env.open_db(b"meta", txn=txn)))


def stored_id(path: Path) -> bytes | None:
    journal = Journal.open(path, readonly=True)
    with journal.read() as view:
        found = view.meta().get(keys.CLUSTER_ID)
    journal.close()
    return found


def test_identity_follows_every_commit(tmp_path: Path) -> None:
    journal, model = Journal.open(tmp_path, dialect="kubernetes"), Model()
    created = identity.read(tmp_path)
    assert created is not None
    assert (created.dialect, created.head, created.layout) == ("kubernetes", 0, 1)
    for i in range(3):
        journal.append([model.put(f"n{i}")])
        found = identity.read(tmp_path)
        assert found is not None
        assert (found.cluster_id, found.head) == (created.cluster_id, i + 1)
        assert found.transaction == journal.statistics()["transactions"]
    journal.close()
    assert stored_id(tmp_path) == created.cluster_id


def test_two_journals_have_different_ids(tmp_path: Path) -> None:
    written(tmp_path / "a")
    written(tmp_path / "b")
    assert stored_id(tmp_path / "a") != stored_id(tmp_path / "b")


def test_imported_journal_has_an_identity_of_its_own(tmp_path: Path) -> None:
    model = written(tmp_path / "a")
    journal, file = Journal.open(tmp_path / "a", readonly=True), io.BytesIO()
    with journal.read() as view:
        export(view, file)
    journal.close()
    file.seek(0)
    restore(file, tmp_path / "b")
    found = identity.read(tmp_path / "b")
    assert found is not None
    assert (found.cluster_id, found.head) == (stored_id(tmp_path / "b"), model.head)
    assert found.cluster_id != stored_id(tmp_path / "a")


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("damage", [b"\xff" * 80, b""])
def test_one_damaged_copy_does_not_matter(tmp_path: Path, slot: int, damage: bytes) -> None:
    model = written(tmp_path)
    file = tmp_path / identity.FILE
    content = file.read_bytes()
    file.write_bytes(
        content[:slot] + damage + content[slot + len(damage) :] if damage else content[:slot] or content
    )
    journal = Journal.open(tmp_path)
    assert journal.head == model.head
    journal.append([model.put("more")])
    journal.close()
    assert len(file.read_bytes()) == identity.SIZE or not damage


def test_every_flipped_bit_of_a_copy_is_found(tmp_path: Path) -> None:
    written(tmp_path)
    copy = (tmp_path / identity.FILE).read_bytes()[:80]
    assert identity.decode(copy) is not None
    for position in range(80):
        for bit in range(8):
            changed = bytearray(copy)
            changed[position] ^= 1 << bit
            assert identity.decode(bytes(changed)) is None


def test_two_damaged_copies_are_refused(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / identity.FILE).write_bytes(bytes(identity.SIZE))
    for readonly in (True, False):
        with pytest.raises(IncompleteFolder, match=r"both copies in it are damaged.*rewound journal recover"):
            Journal.open(tmp_path, readonly=readonly)


def test_older_data_file_is_refused(tmp_path: Path) -> None:
    """For example, one that was restored from a backup without the rest."""
    model = written(tmp_path)
    shutil.copy(tmp_path / "data.mdb", tmp_path / "older")
    journal = Journal.open(tmp_path)
    journal.append([model.put("newer")])
    journal.close()
    shutil.copy(tmp_path / "older", tmp_path / "data.mdb")
    for readonly in (True, False):
        with pytest.raises(LostCommits, match=r"the newest commits .* are lost .*rewound journal recover"):
            Journal.open(tmp_path, readonly=readonly)


def test_head_that_went_back_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    raw(tmp_path, lambda env, txn: txn.delete(keys.pack_offset(5), db=env.open_db(b"events", txn=txn)))
    for readonly in (True, False):
        with pytest.raises(LostCommits, match="says 5, the newest event is 4"):
            Journal.open(tmp_path, readonly=readonly)


def test_data_file_of_another_cluster_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "a", 3)
    written(tmp_path / "b", 9)
    shutil.copy(tmp_path / "b" / "data.mdb", tmp_path / "a" / "data.mdb")
    for readonly in (True, False):
        with pytest.raises(WrongIdentity, match="is of another cluster"):
            Journal.open(tmp_path / "a", readonly=readonly)


def test_missing_data_file_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "data.mdb").unlink()
    for readonly in (True, False):
        with pytest.raises(IncompleteFolder, match=r"data.mdb is missing"):
            Journal.open(tmp_path, readonly=readonly)
    (tmp_path / identity.FILE).unlink()  # LMDB's lock file still shows that there was a journal
    with pytest.raises(IncompleteFolder, match=r"data.mdb is missing"):
        Journal.open(tmp_path)


@pytest.mark.parametrize("name", ["events", "state", "by_type", "by_object", "counts", "snapshots", "meta"])
def test_missing_database_is_refused_and_not_created(tmp_path: Path, name: str) -> None:
    written(tmp_path)
    raw(tmp_path, lambda env, txn: txn.drop(env.open_db(name.encode(), txn=txn)))
    for readonly in (True, False):
        with pytest.raises(
            IncompleteFolder, match=f"its database {name} is missing.*rewound journal recover"
        ):
            Journal.open(tmp_path, readonly=readonly)


def test_empty_meta_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    raw(tmp_path, lambda env, txn: txn.drop(env.open_db(b"meta", txn=txn), delete=False))
    for readonly in (True, False):
        with pytest.raises(IncompleteFolder, match="its database meta has no record"):
            Journal.open(tmp_path, readonly=readonly)


def test_folder_of_an_earlier_release_gets_an_identity(tmp_path: Path) -> None:
    model = written(tmp_path)
    as_of_an_earlier_release(tmp_path)
    reader = Journal.open(tmp_path, readonly=True)
    assert reader.head == model.head
    reader.close()
    assert not (tmp_path / identity.FILE).exists()
    journal = Journal.open(tmp_path)
    assert journal.head == model.head
    journal.close()
    found = identity.read(tmp_path)
    assert found is not None
    assert (found.cluster_id, found.head) == (stored_id(tmp_path), model.head)
    Journal.open(tmp_path).close()


def test_interrupted_adoption_is_completed(tmp_path: Path) -> None:
    written(tmp_path)
    before = identity.read(tmp_path)
    assert before is not None
    remove_records(tmp_path)
    Journal.open(tmp_path).close()
    assert stored_id(tmp_path) == before.cluster_id


@pytest.mark.parametrize(
    "left", [(DRAFT,), (DRAFT, identity.FILE), ("writer.lock",), (f"{identity.FILE}.new",)]
)
def test_interrupted_creation_is_repeated(tmp_path: Path, left: tuple[str, ...]) -> None:
    for name in left:
        (tmp_path / name).write_bytes(b"half")
    written(tmp_path)
    assert not (tmp_path / DRAFT).exists()


class Killed(BaseException):
    """Stands for the death of the process."""


def test_creation_that_is_interrupted_twice_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An identity file without a draft looks like a folder whose data file is gone."""
    for name in (DRAFT, identity.FILE):
        (tmp_path / name).write_bytes(b"half")

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(opening, "_write", killed)
        with pytest.raises(Killed):
            Journal.open(tmp_path)
    written(tmp_path)


def test_identity_behind_the_data_file_is_accepted(tmp_path: Path) -> None:
    """A power failure may leave it like this."""
    model = written(tmp_path)
    older = (tmp_path / identity.FILE).read_bytes()
    journal = Journal.open(tmp_path)
    for i in range(4):
        journal.append([model.put(f"more{i}")])
    journal.close()
    (tmp_path / identity.FILE).write_bytes(older)
    journal = Journal.open(tmp_path)
    assert journal.head == model.head
    journal.append([model.put("again")])
    journal.close()
    found = identity.read(tmp_path)
    assert found is not None and found.head == model.head


def test_identity_file_that_was_removed_is_put_back_at_close(tmp_path: Path) -> None:
    journal, model = Journal.open(tmp_path), Model()
    (tmp_path / identity.FILE).unlink()
    assert journal.check() == "the file identity was removed or replaced while the server ran"
    journal.append([model.put("a")])
    journal.close()
    again = Journal.open(tmp_path)
    assert again.head == 1
    again.close()


def test_problem_with_the_identity_file_ends_with_the_next_write(tmp_path: Path) -> None:
    """A disk that was full for a moment must not make the server unready until its restart."""
    journal, model = Journal.open(tmp_path), Model()
    file = journal.environment._identity_file
    assert file is not None
    writable, file._handle = file._handle, os.open(tmp_path / identity.FILE, os.O_RDONLY)
    journal.append([model.put("a")])
    assert journal.check() == "the file identity cannot be written: Bad file descriptor"
    os.close(file._handle)
    file._handle = writable
    journal.append([model.put("b")])
    assert journal.check() == ""
    journal.close()


def test_reader_beside_a_writer_is_not_refused(tmp_path: Path) -> None:
    journal, model = Journal.open(tmp_path), Model()
    for i in range(30):
        journal.append([model.put(f"n{i}")])
        who, pages = opening.check_beside_writer(tmp_path)
        assert who is not None
        assert (who.head, who.transaction) == (i + 1, pages.newest.transaction)
    journal.close()


def test_refused_folder_is_left_unchanged(tmp_path: Path) -> None:
    written(tmp_path)
    raw(tmp_path, lambda env, txn: txn.drop(env.open_db(b"counts", txn=txn)))
    before = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(CannotOpen):
        Journal.open(tmp_path)
    assert (tmp_path / "data.mdb").read_bytes() == before
