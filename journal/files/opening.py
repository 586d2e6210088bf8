"""Checks the files of a folder before LMDB opens them: the meta pages, and that the identity file agrees with them.

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
from pathlib import Path

from journal.errors import CannotOpen, DamagedMetaPage, IncompleteFolder, LostCommits, NotAJournal
from journal.files import identity, meta_pages
from journal.files.data_file import DATA
from journal.files.identity import Identity
from journal.files.meta_pages import MetaPages

# A writer may change the files while a reader checks them: a read that found something wrong is repeated until two
# reads find the same bytes. Commits take longer than that.
ATTEMPTS = 50
PAUSE = 0.0002

Files = tuple[Identity | None, MetaPages]


def check(path: Path, handle: int) -> Files:
    """Check an open data file against the identity file of its folder."""
    who = _identity(path)  # first: a live writer commits before it writes the identity
    pages = _meta_pages(path, handle)
    if who is None:
        return None, pages
    newest = pages.newest.transaction
    if who.transaction > newest:
        raise LostCommits(path, f"the identity file has transaction {who.transaction}, {DATA} has {newest}")
    if not _agree(who, pages):
        raise DamagedMetaPage(path, f"its meta pages are not what transaction {who.transaction} left")
    return who, pages


def _agree(who: Identity, pages: MetaPages) -> bool:
    known, newest = who.transaction, pages.newest.transaction
    if newest - known > 1:
        return True  # both pages are newer
    if who.newest_page != pages.checksum(known):
        return False
    return newest == known or who.older_page != pages.checksum_as_of(known - 1)


def check_beside_writer(path: Path) -> Files:
    """The same for a reader, beside a process that may be writing."""
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
