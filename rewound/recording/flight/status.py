"""What a flight recorder keeps and needs, and what its folder says about it while nobody records.

A running recorder writes its document (`/debug/rewound/flight`) into the folder every few seconds. `rewound status
--data-dir` reads it there, so that it also works after a kill, beside another user's recorder, and on a copy; the
journal, `gaps.jsonl` and the lock of the folder say what is newer.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import orjson

from rewound.actors.certificates.pki import write_atomically
from rewound.journal import history
from rewound.journal.errors import JournalError
from rewound.journal.files.data_file import DATA, has_writer
from rewound.journal.files.private import read_regular
from rewound.journal.log import Journal
from rewound.journal.view import View
from rewound.recording.query.moments import rfc3339, span
from rewound.rewind.gaps import gaps_in

Document = dict[str, Any]

FILE: Final = "status.json"
JOURNAL: Final = "journal"  # the folder of the journal
SHOWN_GAPS: Final = 100
_DAY: Final = 86400
_SILENT: Final = 60.0  # seconds; a recorder writes its document every ten
_SHORTEST: Final = 60.0  # seconds of recording that say something about a day


def used_bytes(journal: Journal) -> int:
    """The bytes of pages that hold something; freed ones, which LMDB uses again, do not count."""
    with journal.read() as view:
        return sum(_bytes(view, database) for database in view.databases)


def _bytes(view: View, database: Any) -> int:
    found = view.txn.stat(database)
    pages: int = found["branch_pages"] + found["leaf_pages"] + found["overflow_pages"]
    return pages * int(found["psize"])


def file_bytes(journal: Journal) -> int:
    """The size that the file has reached."""
    return journal.environment.statistics()["used_bytes"]


def disk_document(journal: Journal) -> Document:
    """How large the journal is, from when on every version can be shown, and how many bytes a day of events takes."""
    used = used_bytes(journal)
    with journal.read() as view:
        return {"file": file_bytes(journal), "used": used, **_kept(view)}


def _kept(view: View) -> Document:
    """Events up to the floor are the objects that existed there: about as many as exist now, and not of any day."""
    first = next(history.ascending(view, history.whole_log(view), view.floor + 1), 0)
    oldest = view.event(first, contents=False) if first else None
    newest = view.event(view.head, contents=False) if first else None
    if oldest is None or newest is None:
        return {"since": None, "perDay": None}
    seconds, databases = (newest.time - oldest.time) / 1e6, view.databases
    found: Document = {"since": rfc3339(oldest.time), "perDay": None}
    if seconds >= _SHORTEST:
        count: int = view.txn.stat(databases.events)["entries"]
        events = count - sum(view.count(number) for number in view.types().values())
        log = sum(_bytes(view, one) for one in (databases.events, databases.by_type, databases.by_object))
        found["perDay"] = round(max(0, events) * log / count / seconds * _DAY)
    return found


def save_status(folder: Path, document: Document) -> None:
    write_atomically(folder / FILE, orjson.dumps(document), 0o600)


def is_recording(folder: Path) -> bool:
    """Whether the folder has a recording, of `rewound flight` or `rewound record`."""
    return (folder / "recording.json").is_file() and (folder / JOURNAL / DATA).is_file()


def status_of_folder(folder: Path) -> Document:
    """The document of a recording's folder. Raises JournalError and OSError."""
    path, silent = folder / FILE, 0.0
    try:
        found: Document = orjson.loads(read_regular(path))
        silent = time.time() - path.stat().st_mtime
    except (OSError, orjson.JSONDecodeError):
        found = {}
    if not isinstance(found, dict) or "recording" not in found:
        found = {"kind": "Flight", "recording": False, "leftOut": [], "problem": ""}
    running = has_writer(folder / JOURNAL)
    if not running:
        found |= {"recording": False, "problem": "no recorder runs", "lagSeconds": 0.0}
    elif silent > _SILENT:
        problem = f"the recorder has written no status for {span(silent)}; is the disk full, or does it hang?"
        found |= {"recording": False, "problem": problem, "lagSeconds": 0.0}
    journal = Journal.open(folder / JOURNAL, readonly=True, check_tail=False)
    try:
        found |= {"version": str(journal.head), "disk": found.get("disk", {}) | disk_document(journal)}
    finally:
        journal.close()
    gaps = gaps_in(folder)
    found["gaps"] = [one.document() for one in gaps[-SHOWN_GAPS:]]
    return {"folder": str(folder), "running": running, **found}


def recordings_in(folder: Path) -> list[Path]:
    """The folder, or those of several clusters in it. Raises JournalError if there is no recording."""
    found = [folder] if is_recording(folder) else []
    if not found and folder.is_dir():
        found = sorted(one for one in folder.iterdir() if one.is_dir() and is_recording(one))
    if not found:
        raise JournalError(
            f"{folder} has no recording; name the FOLDER of `rewound flight`, or a server: "
            "rewound status --server URL"
        )
    return found
