"""A data folder opened to be read: beside a live server or without one, never changing anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.cli.journal.query.kinds import Kinds
from journal.log import Journal

JOURNAL = "journal"  # the journal's place in a data folder


@dataclass(frozen=True, slots=True)
class Folder:
    journal: Journal
    kinds: Kinds


@contextmanager
def opened(data_dir: Path) -> Iterator[Folder]:
    journal = Journal.open(data_dir / JOURNAL, readonly=True)
    try:
        yield Folder(journal, Kinds(journal))
    finally:
        journal.close()
