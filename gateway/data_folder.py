"""What a start creates in its data folder, so that a failed start can remove it again.

`compose` makes a `CreatedPaths` before it opens the journal, and calls `remove` while it still holds the journal's
lock, unless the server began to listen. Paths that existed before, symbolic links to nothing among them, are never
touched; a folder is removed only when it is empty.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gateway.settings.settings import Settings


class CreatedPaths:
    """The paths of a data folder that did not exist when this was made."""

    def __init__(self, settings: Settings) -> None:
        self._contents = [path for path in _contents(settings) if not _exists(path)]
        self._folders = list(_missing_folders(settings.data_dir))

    def keep(self) -> None:
        """The server listens, and clients may write: from now on its data stays."""
        self._contents, self._folders = [], []

    def remove(self) -> None:
        for path in self._contents:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):
            for folder in self._folders:
                folder.rmdir()


def _contents(settings: Settings) -> tuple[Path, ...]:
    """In the order of removal: the journal last, because its folder holds the lock that keeps other servers out."""
    return settings.kubeconfig, settings.pki, settings.journal


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _missing_folders(folder: Path) -> Iterator[Path]:
    """The folder and those around it that opening the journal will create, innermost first."""
    while not _exists(folder):
        yield folder
        folder = folder.parent
