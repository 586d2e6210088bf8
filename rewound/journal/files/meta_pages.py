"""LMDB's two meta pages, read as bytes and checked: can LMDB have written them?

LMDB alternates between the two: transaction N is in page N & 1, and names the roots of the databases. It has no
checksum for them, takes the one with the higher transaction id, and may read beyond its file or abort when their
fields make no sense. So every opening validates them before LMDB sees the file.

LMDB writes 120 bytes of a meta page in one call, inside one sector, after the pages it refers to are durable. So a
power failure leaves the old or the new page, and impossible fields in the newest one are damage. The older one may
have them: when LMDB cannot write a page, it puts its old transaction and last page back, but not its old roots.

    bytes   0  8  page number      8  2  pad     10  2  flags     12  4  unused
           16  4  magic           20  4  version 24  8  address   32  8  size of the map
           40 48  database of free pages         88 48  main database, which has the roots of the named ones
          136  8  last page      144  8  transaction id

    a database:  4 page size or pad, 2 flags, 2 depth, then 8 each: branch, leaf, overflow pages, entries, root

This is the layout of LMDB 0.9 on 64-bit machines; numbers are in the machine's byte order.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from typing import NamedTuple

SIZE = 152  # bytes that LMDB uses of a meta page

MAGIC = 0xBEEFC0DE
VERSION = 1
NO_ROOT = 0xFFFF_FFFF_FFFF_FFFF
MAX_PAGE_SIZE = 65536
MAX_DEPTH = 32  # LMDB's cursors support no more levels

_PAGE = struct.Struct("=QHHIIIQQIHHQQQQQIHHQQQQQQQ")
_PAGE_HEADER = struct.Struct("=QHH")
_TRANSACTION = struct.Struct("=Q")
_TRANSACTION_AT = SIZE - _TRANSACTION.size
_pack_transaction = _TRANSACTION.pack

BRANCH, LEAF, OVERFLOW, META = 1, 2, 4, 8  # page flags
_INTEGER_KEYS = 0x08  # database flag


class Database(NamedTuple):
    """The record of a tree: its root and its size."""

    pad: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int


class MetaPage(NamedTuple):
    """One of the two meta pages, not validated."""

    slot: int  # 0 or 1: its place in the file
    number: int
    flags: int
    magic: int
    version: int
    address: int
    map_size: int
    free: Database
    main: Database
    last_page: int
    transaction: int

    @property
    def page_size(self) -> int:
        return self.free.pad


class MetaPages(NamedTuple):
    """Both meta pages of a file of `file_size` bytes."""

    pages: tuple[MetaPage, MetaPage]
    contents: tuple[bytes, bytes]  # the part that LMDB uses of each page
    file_size: int

    @property
    def newest(self) -> MetaPage:
        return max(self.pages, key=lambda page: page.transaction)

    def checksum(self, transaction: int) -> int:
        """The CRC-32 of the page that a transaction writes."""
        return zlib.crc32(self.contents[transaction & 1])

    def checksum_as_of(self, transaction: int) -> int:
        """The CRC-32 of the page that a transaction writes, computed as if it had this transaction id."""
        content = self.contents[transaction & 1]
        return zlib.crc32(content[:_TRANSACTION_AT] + _TRANSACTION.pack(transaction))


class BadMetaPage(ValueError):
    """A page that LMDB cannot have written; the text says which one and why."""


class NoMetaPages(BadMetaPage):
    """The file has no meta pages: LMDB did not write it."""


def read(handle: int) -> MetaPages:
    """Read and validate the meta pages of an open file. Raises BadMetaPage if LMDB cannot have written them."""
    size = os.fstat(handle).st_size
    _, contents = read_bytes(handle)
    found = MetaPages((decode(0, contents[0]), decode(1, contents[1])), contents, size)
    _check(found)
    for database in (found.newest.free, found.newest.main):
        _check_root(handle, found.newest, database)
    return found


def read_bytes(handle: int) -> tuple[int, tuple[bytes, bytes]]:
    """The page size, and the part that LMDB uses of both meta pages."""
    first = os.pread(handle, SIZE, 0)
    if len(first) < SIZE:
        raise NoMetaPages("its file ends inside the first page" if first else "its file is empty")
    page_size = _page_size(handle, decode(0, first))
    second = os.pread(handle, SIZE, page_size)
    if len(second) < SIZE or os.fstat(handle).st_size < 2 * page_size:
        raise NoMetaPages("its file ends inside the second page")
    return page_size, (first, second)


def is_of_transaction(content: bytes, transaction: int) -> bool:
    """Whether a meta page belongs to this transaction."""
    return content[_TRANSACTION_AT:] == _pack_transaction(transaction)


def _page_size(handle: int, first: MetaPage) -> int:
    size = first.page_size
    if first.magic == MAGIC and 512 <= size <= MAX_PAGE_SIZE and not size & (size - 1):
        return size
    if first.magic != MAGIC and MAGIC.to_bytes(4, sys.byteorder) not in os.pread(
        handle, 2 * MAX_PAGE_SIZE, 0
    ):
        raise NoMetaPages("LMDB did not write it")
    raise BadMetaPage("meta page 0 is damaged: its header is not that of a meta page")


def decode(slot: int, content: bytes) -> MetaPage:
    """The fields of a meta page, not validated."""
    number, _, flags, _, magic, version, address, map_size, *rest = _PAGE.unpack_from(content)
    free, main = Database(*rest[:8]), Database(*rest[8:16])
    return MetaPage(slot, number, flags, magic, version, address, map_size, free, main, rest[16], rest[17])


def _check(found: MetaPages) -> None:
    first, second = found.pages
    for page in found.pages:
        if (page.number, page.flags, page.magic, page.version) != (page.slot, META, MAGIC, VERSION):
            raise BadMetaPage(f"meta page {page.slot} is damaged: its header is not that of a meta page")
    if (first.free.pad, first.free.flags, first.main.flags) != (
        second.free.pad,
        second.free.flags,
        second.main.flags,
    ):
        raise BadMetaPage("the two meta pages have different flags or page sizes")
    transactions = (first.transaction, second.transaction)
    if transactions != (0, 0) and (abs(first.transaction - second.transaction) != 1 or first.transaction & 1):
        raise BadMetaPage(
            f"the meta pages have the transactions {transactions}, which cannot follow each other"
        )
    if why := _problem(found.newest):
        raise BadMetaPage(f"meta page {found.newest.number} is damaged: {why}")


def _problem(page: MetaPage) -> str:
    if not page.free.flags & _INTEGER_KEYS:
        return "the flags of its databases are impossible"
    if page.last_page < 1 or (page.last_page + 1) * page.page_size > page.map_size:
        return f"its last page {page.last_page} is outside of the map"
    for database in (page.free, page.main):
        if why := _database_problem(database, page.last_page):
            return why
    return ""


def _database_problem(database: Database, last_page: int) -> str:
    if (database.root == NO_ROOT) != (not database.depth) or database.depth > MAX_DEPTH:
        return f"a database has {database.depth} levels and the root {database.root}"
    if database.root != NO_ROOT and not 2 <= database.root <= last_page:
        return f"a root is page {database.root}, the last page is {last_page}"
    if database.branch_pages + database.leaf_pages + database.overflow_pages > last_page:
        return "a database has more pages than the file"
    return ""


def _check_root(handle: int, page: MetaPage, database: Database) -> None:
    """Raise BadMetaPage unless the root is a tree page with the right number: anything else may crash LMDB."""
    if database.root == NO_ROOT:
        return
    header = os.pread(handle, _PAGE_HEADER.size, database.root * page.page_size)
    if len(header) < _PAGE_HEADER.size:
        raise BadMetaPage(f"the file ends before page {database.root}, the root of a database")
    number, _, flags = _PAGE_HEADER.unpack(header)
    expected = LEAF if database.depth == 1 else BRANCH
    if number != database.root or flags & (BRANCH | LEAF | OVERFLOW | META) != expected:
        raise BadMetaPage(
            f"page {database.root} is not the root that the meta page of {page.transaction} names"
        )
