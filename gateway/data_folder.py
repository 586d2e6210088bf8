"""What a start creates in its data folder, so that a failed start can remove it again.

`compose` makes a `CreatedPaths` before it opens the journal, and calls `remove` while it still holds the journal's
lock, unless the server became ready. Paths that existed before are never touched; a folder is removed only when it
is empty.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gateway.settings import Settings


class CreatedPaths:
    """The paths of a data folder that did not exist when this was made."""

    def __init__(self, settings: Settings) -> None:
        self._contents = [path for path in _contents(settings) if not path.exists()]
        self._folders = list(_missing_folders(settings.data_dir))

    def keep(self) -> None:
        """The server is ready: from now on its data stays."""
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
    return settings.journal, settings.pki, settings.kubeconfig


def _missing_folders(folder: Path) -> Iterator[Path]:
    """The folder and those around it that opening the journal will create, innermost first."""
    while not folder.exists():
        yield folder
        folder = folder.parent
