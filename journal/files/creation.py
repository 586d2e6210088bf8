"""Creates a new journal folder; decides whether a folder is new.

Only here are databases created: a database that is missing anywhere else is damage. All of a new journal (its
databases, the records of `meta`, the identity file) is complete before `data.mdb` gets its name, so that a process
killed at any step leaves either a complete journal or a folder that the next start creates again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import lmdb

from journal.errors import IncompleteFolder, NotAJournal
from journal.files import identity, meta_pages
from journal.files.data_file import DATA
from journal.files.identity import Identity

DRAFT = "founding.mdb"  # the new file until it is complete; the name is part of the folder's layout
LMDB_LOCK = "lock.mdb"  # LMDB creates it when it opens `data.mdb`, never before


def is_new(path: Path) -> bool:
    """Whether a folder has no journal yet. IncompleteFolder when it had one and `data.mdb` is gone."""
    if (path / DATA).exists():
        return False
    # An interrupted creation leaves an identity file beside the draft.
    left = (path / LMDB_LOCK, *(() if (path / DRAFT).exists() else (path / identity.FILE,)))
    if not any(file.exists() for file in left):
        return True
    if (path / DATA).exists():
        return False  # another process has just created it
    raise IncompleteFolder(path, f"{DATA} is missing")


def create(path: Path, databases: Iterable[str], meta: Mapping[bytes, bytes], new: Identity) -> None:
    """Create the journal of a new folder, with these records in the database `meta`."""
    draft = path / DRAFT
    # The draft last: an identity file without it looks like a folder whose `data.mdb` is gone.
    (path / identity.FILE).unlink(missing_ok=True)
    draft.unlink(missing_ok=True)
    try:
        _write(draft, tuple(databases), meta)
    except lmdb.Error as error:
        raise NotAJournal(path, str(error)) from error
    identity.create(path, as_left(draft, new))
    draft.replace(path / DATA)
    for folder in (path, path.parent):
        identity.sync_folder(folder)


def as_left(data: Path, who: Identity) -> Identity:
    """An identity with the transaction and the meta pages that a closed file has."""
    handle = os.open(data, os.O_RDONLY)
    try:
        pages = meta_pages.read(handle)
    finally:
        os.close(handle)
    newest = pages.newest.transaction
    return who._replace(
        transaction=newest, newest_page=pages.checksum(newest), older_page=pages.checksum(newest + 1)
    )


def _write(draft: Path, databases: tuple[str, ...], meta: Mapping[bytes, bytes]) -> None:
    env = lmdb.open(str(draft), subdir=False, lock=False, mode=0o600, max_dbs=len(databases) + 1)
    try:
        with env.begin(write=True) as txn:
            handles = {name: env.open_db(name.encode(), txn=txn) for name in databases}
            for key, value in meta.items():
                txn.put(key, value, db=handles["meta"])
    finally:
        env.close()
