"""Opens LMDB's files for `journal.environment`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lmdb

from journal.errors import AlreadyOpen, NotAJournal
from journal.files.data_file import DATA, DataFile, lock_folder

MAX_READERS = 512  # processes x threads that read at once: workers, verify, a debugger; 64 bytes each


def open_files(path: Path, map_size: int, databases: int, *, readonly: bool) -> Any:
    """LMDB's environment for a folder with `data.mdb`, with room for this many named databases."""
    try:
        return lmdb.open(
            str(path),
            map_size=map_size,
            readonly=readonly,
            create=False,
            max_dbs=databases + 1,
            max_readers=MAX_READERS,
            mode=0o600,
            # Lists scan sequentially anyway; a get of one object should not read its neighbours' pages.
            readahead=False,
        )
    except lmdb.Error as error:
        raise NotAJournal(path, str(error)) from error


def extend_to_last_page(env: Any, path: Path, *, writer: bool) -> None:
    """Extend a file that ends before its last page with zeros.

    Pages that a commit allocated and freed may never have been written: such a file is sound. A truncated file
    looks the same, but reading beyond its end would kill the process with SIGBUS; zeros fail their checks.
    A reader does not change the file of a running writer.
    """
    size = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    if (path / DATA).stat().st_size >= size:
        return
    try:
        if writer:
            os.truncate(path / DATA, size)
        else:
            _extend_as_writer(path, size)
    except (AlreadyOpen, OSError):
        return


def _extend_as_writer(path: Path, size: int) -> None:
    lock = lock_folder(path)
    try:
        data = DataFile(path)
        try:
            os.ftruncate(data.handle, size)
        finally:
            data.close()
    finally:
        os.close(lock)
