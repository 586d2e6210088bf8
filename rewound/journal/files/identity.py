"""The identity file: which cluster a journal folder belongs to, and its newest commit.

LMDB has no checksum on its meta pages: after one flipped bit it may show an older or an empty cluster. The file
`identity` beside `data.mdb` is a second record of the same facts. Every opening compares the two
(`journal.files.opening`) and refuses the folder if they contradict each other.

Two slots, at bytes 0 and 4096 of the file (8192 bytes in all), so that a torn write never damages both. A slot is:

    bytes   0  16   "rewound identity"
           16   2   version of this layout: 1
           18   2   layout of the databases (`journal.log.LAYOUT`)
           20  16   cluster id: a random UUID, also in the database `meta` under the key `id`
           36  16   dialect, ASCII, padded with zeros
           52   8   transaction: the id that LMDB gave to a durable commit
           60   8   head: the newest offset after that commit; 0 when there is none
           68   4   CRC-32 of the meta page that this commit wrote, page `transaction & 1` (152 bytes)
           72   4   CRC-32 of the other meta page at that time, which has the commit before
           76   4   CRC-32 of bytes 0 to 75 of this slot

All numbers are big-endian. A commit writes the slot `transaction & 1`; the valid slot with the higher transaction
counts. The writer writes a slot after each commit without fsync (so that it is exact after a kill), and calls
fdatasync in housekeeping (every 30 seconds) and at close: after a power failure the file may be behind `data.mdb`,
never ahead of it. A folder of an earlier release has no such file; the first writer that opens it creates one.
"""

from __future__ import annotations

import os
import struct
import uuid
from contextlib import suppress
from os import pwrite
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from rewound.journal.errors import NewerLayout
from rewound.journal.files import sync_data
from rewound.journal.files.private import read_regular

FILE = "identity"

VERSION = 1
SLOTS = (0, 4096)
SIZE = 8192

_MAGIC = b"rewound identity"
_FIXED = struct.Struct(">16sHH16s16s")
_CHANGING = struct.Struct(">QQII")
_CHECKSUM = struct.Struct(">I")
_pack_changing, _pack_checksum = _CHANGING.pack, _CHECKSUM.pack
_SLOT_SIZE = _FIXED.size + _CHANGING.size + _CHECKSUM.size


class Identity(NamedTuple):
    """The contents of a slot."""

    layout: int
    cluster_id: bytes  # 16 bytes
    dialect: str
    transaction: int
    head: int
    newest_page: int  # CRC-32 of the meta page that this transaction wrote
    older_page: int  # CRC-32 of the other meta page

    @property
    def uuid(self) -> str:
        return str(uuid.UUID(bytes=self.cluster_id))


def new_cluster_id() -> bytes:
    return uuid.uuid4().bytes


def read(path: Path) -> Identity | None:
    """The identity in a folder; None without a file. Raises ValueError if both slots are damaged, NewerLayout."""
    try:
        content = read_regular(path / FILE)
    except FileNotFoundError:
        return None
    found = [slot for start in SLOTS if (slot := decode(content[start : start + _SLOT_SIZE])) is not None]
    if not found:
        # Later versions may be longer, but begin alike.
        magic, version, *_ = _FIXED.unpack_from(content.ljust(_FIXED.size, b"\0"))
        if magic == _MAGIC and version > VERSION:
            raise NewerLayout(f"the file {FILE} in {path}", version, VERSION)
        raise ValueError("both copies in it are damaged")
    return max(found, key=lambda slot: slot.transaction)


def decode(slot: bytes) -> Identity | None:
    """The contents of a slot; None if it is damaged or has a version that this release does not know."""
    if len(slot) != _SLOT_SIZE or crc32(slot[:-4]) != _CHECKSUM.unpack_from(slot, _SLOT_SIZE - 4)[0]:
        return None
    magic, version, layout, cluster_id, dialect = _FIXED.unpack_from(slot)
    if magic != _MAGIC or version != VERSION:
        return None
    return Identity(
        layout, cluster_id, dialect.rstrip(b"\0").decode(), *_CHANGING.unpack_from(slot, _FIXED.size)
    )


def create(path: Path, identity: Identity) -> None:
    """Create the file with both slots; it and its directory entry are durable when this returns."""
    content = bytearray(SIZE)
    encoded = _fixed_part(identity) + _pack_changing(
        identity.transaction, identity.head, identity.newest_page, identity.older_page
    )
    encoded += _pack_checksum(crc32(encoded))
    for start in SLOTS:
        content[start : start + _SLOT_SIZE] = encoded
    write_durably(path, bytes(content))


def write_durably(path: Path, content: bytes) -> None:
    """Replace the identity file as a whole."""
    draft = path / f"{FILE}.new"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)
    draft.replace(path / FILE)
    sync_folder(path)


def sync_folder(path: Path) -> None:
    """Make the directory entries of a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fixed_part(identity: Identity) -> bytes:
    """The part of a slot that commits do not change."""
    return _FIXED.pack(_MAGIC, VERSION, identity.layout, identity.cluster_id, identity.dialect.encode())


class IdentityFile:
    """The identity file of an open journal, used by its writer.

    A failure to write it never fails a commit, which is durable by then; `check` returns the reason.
    """

    def __init__(self, path: Path, identity: Identity) -> None:
        self._path = path
        # Transaction of the newest write, and of the newest fdatasync.
        self._write_problem = self._sync_problem = ""
        self._fixed = _fixed_part(identity)
        self._fixed_checksum = crc32(self._fixed)
        self.unsynced = False
        self._handle = os.open(path / FILE, os.O_RDWR | os.O_CLOEXEC)

    def record(self, transaction: int, head: int, newest_page: int, older_page: int) -> None:
        """Record a durable commit."""
        changing = _pack_changing(transaction, head, newest_page, older_page)
        checksum = _pack_checksum(crc32(changing, self._fixed_checksum))
        try:
            pwrite(self._handle, self._fixed + changing + checksum, SLOTS[transaction & 1])
        except OSError as error:
            self._write_problem = _unwritable(error)
        else:
            self._write_problem = ""
        self.unsynced = True

    def sync(self) -> None:
        """Make the recorded commits durable. Takes as long as the disk does."""
        if not self.unsynced:
            return
        self.unsynced = False
        try:
            sync_data(self._handle)
        except OSError as error:
            self._sync_problem, self.unsynced = _unwritable(error), True
        else:
            self._sync_problem = ""

    def check(self) -> str:
        """Why the next opening may refuse the folder; empty if nothing is wrong."""
        if problem := self._write_problem or self._sync_problem:
            return problem
        return "" if self._is_in_place() else f"the file {FILE} was removed or replaced while the server ran"

    def close(self, *, put_back: bool) -> None:
        """Make the file durable, and write it again if it was removed."""
        self.sync()
        with suppress(OSError):
            if put_back and not self._is_in_place():
                self._put_back()
        os.close(self._handle)

    def _is_in_place(self) -> bool:
        try:
            found, own = os.stat(self._path / FILE), os.fstat(self._handle)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)

    def _put_back(self) -> None:
        if (self._path / FILE).exists():
            return  # the file belongs to another cluster
        write_durably(self._path, os.pread(self._handle, SIZE, 0))


def _unwritable(error: OSError) -> str:
    return f"the file {FILE} cannot be written: {error.strerror}"
