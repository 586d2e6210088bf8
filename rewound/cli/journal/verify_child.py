"""The process that reads a folder for `rewound journal verify`, because LMDB may crash on a damaged file.

    python -m rewound.cli.journal.verify_child FOLDER [OFFSET]

It prints a JSON document a line; the digest is that of the events after OFFSET:

    {"progress": [read, all]}      while it reads
    {"pages": 120}                 the structure was checked
    {"damage": {"page": 17, "database": "state", "what": ..., "means": ...}}
    {"report": {...}}              the records were checked; only when the structure is sound
    {"recoverable": "..."}         what `recover` would save; only when the structure is not sound
    {"refused": "..."}             the folder cannot be opened; the sentence says why

First it checks every page without LMDB, which cannot crash; then LMDB reads the records. Beside a live server, a read
transaction keeps the version under check.
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from rewound.journal.errors import Damaged, JournalError
from rewound.journal.files.structure import Audit
from rewound.journal.log import Journal
from rewound.journal.repair.recover import Findings
from rewound.journal.repair.verify import open_pages, verify, verify_structure

PAGES = 1000  # between two reports of progress


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        _check(Path(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0)
    except JournalError as refused:
        _print(refused=str(refused))
    return 0


def _print(**document: Any) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _check(path: Path, digest_after: int) -> None:
    if _check_structure(path).damage:
        _print(recoverable=_recoverable(path))
    else:
        _check_records(path, digest_after)


def _check_structure(path: Path) -> Audit:
    found = verify_structure(path, _Progress())
    for damage in found.damage:
        _print(damage=msgspec.structs.asdict(damage))
    _print(pages=found.pages)
    return found


def _recoverable(path: Path) -> str:
    try:
        with open_pages(path) as file:
            plan = Findings(file, path, None).plan
    except JournalError as refused:
        return str(refused)
    lost = f"{len(plan.lost_objects)} objects and {len(plan.lost_events)} events are lost"
    more = ", and perhaps others that nothing names any more" if plan.unknown else ""
    return f"`rewound journal recover` would save {plan.objects} objects and {len(plan.saved)} events; {lost}{more}"


def _check_records(path: Path, digest_after: int) -> None:
    journal = Journal.open(path, readonly=True, check_tail=False)
    try:
        with journal.read() as view:
            databases = (view.databases.events, view.databases.state)
            total = sum(view.txn.stat(database)["entries"] for database in databases)
            report = verify(view, lambda read: _print(progress=[read, total]), digest_after)
            try:
                view.check_type_names()
            except Damaged as damage:
                report.add(damage.what)
    finally:
        journal.close()
    _print(report=asdict(report))


class _Progress:
    def __init__(self) -> None:
        self._next = PAGES

    def __call__(self, read: int, pages: int) -> None:
        if read >= self._next:
            self._next = read + PAGES
            _print(progress=[read, pages])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
