"""Opens the source of a replay: a data folder, the folder of its journal, or a file of `rewound journal export`.

None of them is changed. A folder is read where it is, also beside a server that writes to it: the recording ends with
the newest event at this moment. A file is imported into a temporary folder first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rewound.journal.errors import NoJournal
from rewound.journal.files.data_file import DATA
from rewound.journal.recording import Recording
from rewound.journal.transfer import RestoreProgress, restore
from rewound.recording.compressed import decompressed

IMPORTED = "recording"  # folder of a file's journal


@contextmanager
def open_source(
    source: Path, temporary: Path, progress: RestoreProgress | None = None
) -> Iterator[Recording]:
    """Open a source; a file is imported into `temporary`. Raises JournalError or OSError."""
    recording = Recording.open_folder(_journal_of(source, temporary, progress))
    try:
        yield recording
    finally:
        recording.close()


def _journal_of(source: Path, temporary: Path, progress: RestoreProgress | None) -> Path:
    if source.is_dir():
        return _in_folder(source)
    if not source.exists():
        raise NoJournal(source)
    imported = temporary / IMPORTED
    with source.open("rb") as stream:
        restore(decompressed(stream), imported, progress)
    return imported


def _in_folder(folder: Path) -> Path:
    for path in (folder / "journal", folder):
        if (path / DATA).exists():
            return path
    raise NoJournal(folder)
