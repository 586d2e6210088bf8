"""Opens the journal of a data folder read-only, beside a live server or without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.cli.journal.query.kinds import Kinds
from journal.log import Journal

JOURNAL = "journal"  # folder of the journal in a data folder


@dataclass(frozen=True, slots=True)
class Folder:
    journal: Journal
    kinds: Kinds


@contextmanager
def open_folder(data_dir: Path) -> Iterator[Folder]:
    journal = Journal.open(data_dir / JOURNAL, readonly=True)
    try:
        yield Folder(journal, Kinds(journal))
    finally:
        journal.close()
