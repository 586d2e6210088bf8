"""Compresses files that were rotated with gzip, in a thread of its own: 100 MiB take seconds, and events go on."""

from __future__ import annotations

import gzip
import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread

logger = logging.getLogger(__name__)

SUFFIX = ".gz"
_PART = ".part"  # of a file that is not whole
_MODE = 0o600


class Compression:
    def __init__(self) -> None:
        self._one_at_a_time = Lock()
        self._last: Thread | None = None

    def start(self, paths: Sequence[Path]) -> None:
        """Replace these files by compressed ones, which have the name and SUFFIX; never waits."""
        if paths:
            # A daemon: a stop does not wait. What is not whole then is made again after the next start.
            self._last = Thread(target=self._run, args=(paths,), name="audit log compression", daemon=True)
            self._last.start()

    def wait(self) -> None:
        """Until what was started last has ended."""
        if self._last is not None:
            self._last.join()

    def _run(self, paths: Sequence[Path]) -> None:
        with self._one_at_a_time:
            for path in paths:
                try:
                    _compress(path)
                except FileNotFoundError:
                    pass  # deleted, or compressed meanwhile
                except OSError as error:
                    logger.warning("audit: cannot compress %s: %s", path, error.strerror)


def _compress(path: Path) -> None:
    part = path.with_name(path.name + SUFFIX + _PART)
    try:
        with path.open("rb") as source:
            opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
            with os.fdopen(opened, "wb") as raw, gzip.GzipFile(path.name, "wb", 6, raw) as target:
                shutil.copyfileobj(source, target, 1 << 20)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise
    part.rename(path.with_name(path.name + SUFFIX))
    path.unlink(missing_ok=True)
