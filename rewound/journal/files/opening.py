"""Checks the files of a folder before LMDB opens them, and creates those of a new folder.

The meta pages must be possible, and the identity file must agree with them:

    identity file      meta pages                                   outcome
    ahead              behind: a commit that was durable is gone    LostCommits
    same transaction   the newest is not what that commit wrote     DamagedMetaPage
    one behind         its page is not what that commit wrote, or   DamagedMetaPage
                       the newest is the older one with another id
    behind             ahead: a power failure, or a kill between    opened
                       a commit and the write of the identity file
    none               valid                                        opened; the first writer creates the file
    any                impossible                                   DamagedMetaPage

After that, `journal.log` compares the cluster id, the layout and the head with those in the databases.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import lmdb

from rewound.journal.errors import CannotOpen, DamagedMetaPage, IncompleteFolder, LostCommits, NotAJournal
from rewound.journal.files import identity, meta_pages
from rewound.journal.files.data_file import DATA
from rewound.journal.files.identity import Identity
from rewound.journal.files.meta_pages import MetaPages

# A writer may change the files while a reader checks them: after a problem, the reader reads again until two reads
# give the same bytes. Commits take longer than that.
ATTEMPTS = 50
PAUSE = 0.0002

Files = tuple[Identity | None, MetaPages]


def check(path: Path, handle: int) -> Files:
    """Check an open data file against the identity file of its folder."""
    recorded = _identity(path)  # read first, because a running writer commits before it writes the identity
    pages = _meta_pages(path, handle)
    if recorded is None:
        return None, pages
    newest = pages.newest.transaction
    if recorded.transaction > newest:
        raise LostCommits(
            path, f"the identity file has transaction {recorded.transaction}, {DATA} has {newest}"
        )
    if not _agree(recorded, pages):
        raise DamagedMetaPage(path, f"its meta pages are not what transaction {recorded.transaction} left")
    return recorded, pages


def _agree(recorded: Identity, pages: MetaPages) -> bool:
    known, newest = recorded.transaction, pages.newest.transaction
    if newest - known > 1:
        return True  # both pages are newer
    if recorded.newest_page != pages.checksum(known):
        return False
    return newest == known or recorded.older_page != pages.checksum_as_of(known - 1)


def check_beside_writer(path: Path) -> Files:
    """Like `check`, for a reader of a folder that another process may be writing."""
    before = None
    handle = os.open(path / DATA, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _ in range(ATTEMPTS):
            now = _contents(path, handle)
            try:
                return check(path, handle)
            except CannotOpen:
                if now == before:
                    raise
            before = now
            time.sleep(PAUSE)
        return check(path, handle)
    finally:
        os.close(handle)


def _contents(path: Path, handle: int) -> tuple[bytes, object]:
    file = path / identity.FILE
    try:
        pages: object = meta_pages.read_bytes(handle)
    except meta_pages.BadMetaPage:
        pages = None
    return file.read_bytes() if file.exists() else b"", pages


def _identity(path: Path) -> Identity | None:
    try:
        return identity.read(path)
    except ValueError as damage:
        raise IncompleteFolder(path, f"the file {identity.FILE} is useless: {damage}") from damage


def _meta_pages(path: Path, handle: int) -> MetaPages:
    try:
        return meta_pages.read(handle)
    except meta_pages.NoMetaPages as error:
        raise NotAJournal(path, str(error)) from error
    except meta_pages.BadMetaPage as damage:
        raise DamagedMetaPage(path, str(damage)) from damage


DRAFT = "founding.mdb"  # name of the new file until it is complete; part of the folder's layout
LMDB_LOCK = "lock.mdb"  # LMDB creates it only when it opens `data.mdb`


def is_new(path: Path) -> bool:
    """Whether a folder has no journal yet. Raises IncompleteFolder if it had one and `data.mdb` is gone."""
    if (path / DATA).exists():
        return False
    # An interrupted creation leaves an identity file beside the draft.
    left = (path / LMDB_LOCK, *(() if (path / DRAFT).exists() else (path / identity.FILE,)))
    if not any(file.exists() for file in left):
        return True
    if (path / DATA).exists():
        return False  # another process has just created the journal
    raise IncompleteFolder(path, f"{DATA} is missing")


def create_journal(path: Path, databases: Iterable[str], meta: Mapping[bytes, bytes], new: Identity) -> None:
    """Create the journal of a new folder, with these records in the database `meta`.

    Databases are created only here: anywhere else, a missing database is damage. The databases, the records of `meta`
    and the identity file are complete before `data.mdb` gets its name, so that a process killed at any step leaves
    either a complete journal or a folder that the next start creates again.
    """
    draft = path / DRAFT
    # The draft goes last: an identity file without it looks like a folder whose `data.mdb` is gone.
    (path / identity.FILE).unlink(missing_ok=True)
    draft.unlink(missing_ok=True)
    try:
        _write(draft, tuple(databases), meta)
    except lmdb.Error as error:
        raise NotAJournal(path, str(error)) from error
    identity.create(path, identity_after_close(draft, new))
    draft.replace(path / DATA)
    for folder in (path, path.parent):
        identity.sync_folder(folder)


def identity_after_close(data: Path, recorded: Identity) -> Identity:
    """An identity with the transaction and the meta pages of a closed file."""
    handle = os.open(data, os.O_RDONLY)
    try:
        pages = meta_pages.read(handle)
    finally:
        os.close(handle)
    newest = pages.newest.transaction
    return recorded._replace(
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
