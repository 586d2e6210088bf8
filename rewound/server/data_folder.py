"""Removes what a failed start has created in its data folder, and warns of files that others can read.

`run` makes a `CreatedPaths` before it opens the journal, and calls `remove` while it still holds the journal's
lock, unless the server began to listen. Paths that existed before, dangling symbolic links included, are never
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
        """Keep everything: the server listens, so clients may have written."""
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
    """The paths in the order of removal. The journal comes last: its lock keeps other servers out."""
    node = settings.node_id, settings.unsynced, settings.quarantine
    return settings.kubeconfig, settings.pki, *node, settings.journal


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _missing_folders(folder: Path) -> Iterator[Path]:
    """The folder and those of its parents that opening the journal will create, innermost first."""
    while not _exists(folder):
        yield folder
        folder = folder.parent


def warn_of_readable_files(settings: Settings) -> None:
    """Log a warning about secrets that every user of this machine can read, or replace, as after a careless copy."""
    files = (settings.kubeconfig, settings.journal / DATA, *sorted(settings.pki.glob("*.key")))
    found = [one for one in files if _is_open(one, stat.S_IROTH) and _is_open(one.parent, stat.S_IXOTH)]
    if found:
        logger.warning(
            "others can read secrets in %s; if they can reach the folder, run: chmod 600 %s",
            settings.data_dir,
            shlex.join(map(str, found)),
        )
    folders = (settings.data_dir, settings.journal, settings.pki)
    if writable := [one for one in folders if _is_open(one, stat.S_IWOTH)]:
        logger.warning(
            "others can replace keys and the journal in %s: run: chmod 700 %s",
            settings.data_dir,
            shlex.join(map(str, writable)),
        )


def _is_open(path: Path, right: int) -> bool:
    try:
        return bool(path.stat().st_mode & right)
    except OSError:
        return False
