"""What a start creates in its data folder, so that a failed start can remove it again, and who else can read it.

`run` makes a `CreatedPaths` before it opens the journal, and calls `remove` while it still holds the journal's
lock, unless the server began to listen. Paths that existed before, symbolic links to nothing among them, are never
touched; a folder is removed only when it is empty.
"""

from __future__ import annotations

import logging
import shlex
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rewound.gateway.settings.settings import Settings
from rewound.journal.files.data_file import DATA

logger = logging.getLogger(__name__)


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
    node = settings.node_id, settings.unsynced, settings.quarantine
    return settings.kubeconfig, settings.pki, *node, settings.journal


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _missing_folders(folder: Path) -> Iterator[Path]:
    """The folder and those around it that opening the journal will create, innermost first."""
    while not _exists(folder):
        yield folder
        folder = folder.parent


def warn_of_readable_files(settings: Settings) -> None:
    """Log files with secrets that every user of this machine can read: a copy may have such."""
    files = (settings.kubeconfig, settings.journal / DATA, *sorted(settings.pki.glob("*.key")))
    found = [one for one in files if _is_open(one, stat.S_IROTH) and _is_open(one.parent, stat.S_IXOTH)]
    if found:
        logger.warning(
            "others can read secrets in %s; if they can reach the folder, run: chmod 600 %s",
            settings.data_dir,
            shlex.join(map(str, found)),
        )


def _is_open(path: Path, right: int) -> bool:
    try:
        return bool(path.stat().st_mode & right)
    except OSError:
        return False
