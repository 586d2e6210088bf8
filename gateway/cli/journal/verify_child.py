"""The process that reads a folder for `rewound journal verify`, because LMDB may die on a damaged file.

    python -m gateway.cli.journal.verify_child FOLDER        prints a JSON document a line:

    {"progress": [read, all]}      while it reads
    {"pages": 120}                 the structure was checked
    {"damage": {"page": 17, "database": "state", "what": ..., "means": ...}}
    {"report": {...}}              the records were checked; only when the structure is sound
    {"recoverable": "..."}         what `recover` would save; only when the structure is not sound
    {"refused": "..."}             the folder cannot be opened; the sentence says why

First it checks every page by itself, which cannot die, then LMDB reads the records. Beside a live server a read
transaction keeps the version that it checks.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lmdb

from journal.environment import Databases
from journal.errors import JournalError, NoJournal, NotAJournal
from journal.files.data_file import DATA
from journal.log import Journal
from journal.pages.audit import MAIN, Audit, Damage, audit
from journal.pages.layout import Meta, PageFile
from journal.recovery.recover import Findings
from journal.verify import verify

PAGES = 1000  # between two reports of progress
ATTEMPTS = 100  # to read the meta page of a transaction before two commits replace it


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        _check(Path(arguments[0]))
    except JournalError as refused:
        _print(refused=str(refused))
    return 0


def _print(**document: Any) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _check(path: Path) -> None:
    if _check_structure(path).damage:
        _print(recoverable=_recoverable(path))
    else:
        _check_records(path)


def _check_structure(path: Path) -> Audit:
    file = _open(path)
    try:
        with _pinned(path, file) as meta:
            found = audit(file, Databases._fields, meta, _Progress(file.pages))
    finally:
        file.close()
    found.damage += [Damage(None, MAIN, f"there is no database {name}") for name in found.missing]
    for damage in found.damage:
        _print(damage=asdict(damage))
    _print(pages=found.pages)
    return found


def _open(path: Path) -> PageFile:
    try:
        file = PageFile(path / DATA)
    except FileNotFoundError:
        raise NoJournal(path) from None
    if not file.size:
        raise NotAJournal(path, f"{DATA} is empty")
    return file


@contextmanager
def _pinned(path: Path, file: PageFile) -> Iterator[Meta | None]:
    """The meta page of a read transaction, whose pages nobody overwrites; None where LMDB cannot begin one.

    To begin a transaction, LMDB reads the meta pages only.
    """
    try:
        environment = lmdb.open(str(path), readonly=True, create=False, max_dbs=0, readahead=False)
    except lmdb.Error:
        yield None
        return
    try:
        for _ in range(ATTEMPTS):
            with environment.begin() as transaction:
                number = transaction.id()
                meta = next((meta for meta in file.metas() if meta.transaction == number), None)
                if meta is not None:
                    file.update_size()
                    yield meta
                    return
        yield None
    finally:
        environment.close()


def _recoverable(path: Path) -> str:
    file = _open(path)
    try:
        plan = Findings(file, path, None).plan
    except JournalError as refused:
        return str(refused)
    finally:
        file.close()
    lost = f"{len(plan.lost_objects)} objects and {len(plan.lost_events)} events are lost"
    more = ", and perhaps others that nothing names any more" if plan.unknown else ""
    return f"`rewound journal recover` would save {plan.objects} objects and {len(plan.kept)} events; {lost}{more}"


def _check_records(path: Path) -> None:
    journal = Journal.open(path, readonly=True, check_tail=False)
    try:
        with journal.read() as view:
            databases = (view.databases.events, view.databases.state)
            total = sum(view.txn.stat(database)["entries"] for database in databases)
            report = verify(view, lambda read: _print(progress=[read, total]))
    finally:
        journal.close()
    _print(report=asdict(report))


class _Progress:
    def __init__(self, pages: int) -> None:
        self._pages, self._next = pages, PAGES

    def __call__(self, read: int) -> None:
        if read >= self._next:
            self._next = read + PAGES
            _print(progress=[read, self._pages])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
