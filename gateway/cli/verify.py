"""`rewound verify`: read every record of a data folder and prove that state equals replay.

Opens the journal as a reader, so it may run beside a server. Exit code 0: sound; 1: damaged or unreadable.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def verify(arguments: Sequence[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="rewound verify", description=__doc__, allow_abbrev=False)
    parser.add_argument("--data-dir", type=Path, default=Path("rewound-data"), metavar="FOLDER")
    return _verify(parser.parse_args(arguments).data_dir / "journal")


def _verify(path: Path) -> int:
    from journal.errors import JournalError
    from journal.log import Journal
    from journal.verify import verify as prove

    try:
        journal = Journal.open(path, readonly=True)
    except JournalError as error:
        print(f"rewound: {error}", file=sys.stderr)
        return 1
    try:
        with journal.read() as view:
            report = prove(view)
    finally:
        journal.close()
    print(f"{report.events} events, {report.rows} objects, {report.snapshots} snapshots")
    for difference in report.differences:
        print(f"wrong: {difference}")
    print("sound" if report.sound else f"{report.wrong} wrong: restore the folder from a backup")
    return 0 if report.sound else 1
