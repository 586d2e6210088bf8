"""`rewound verify`: check every page and every record.

It checks the structure of the file page by page. Then it reads every record and replays all events, from the first
one and from the newest snapshot, and compares the result with state, indexes and counts. Exit code 1 when anything
is wrong. It never changes the folder, and runs beside a live server. An exported file is imported into a temporary
folder first, which checks every checksum. `rewound recover` makes a new folder
of what a damaged one still has.

The digest is that of all events, or of those after a version. A standby and its leader have the same if they have
the same retention floor, and always after the higher of the two floors (`rewound stats`).

    rewound verify
    rewound verify backup
    rewound verify incident.journal.gz
    rewound verify standby --digest-after 1042
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rewound.actors.rewind.difference import escaped
from rewound.cli.journal.flags import Options, Parser, add_folder, add_output, refuse_second_folder
from rewound.cli.journal.printing import Output
from rewound.client.errors import Failure, UsageError
from rewound.journal.files.private import read_regular
from rewound.journal.files.structure import Damage
from rewound.journal.repair.verify import SHOWN, Report
from rewound.recording.progress import Progress
from rewound.recording.query.folder import open_file
from rewound.recording.query.source import JOURNAL

# -P: the current folder may have packages of the same names.
CHILD = (sys.executable, "-P", "-m", "rewound.cli.journal.verify_child")
QUARANTINE = "quarantine.json"
_OF_SERVERS = ("--kubeconfig", "--context", "--server", "-s", "--token")
ADVICE = "restore the folder from a backup, or see what `rewound recover` can save"


@dataclass(slots=True)
class Found:
    """Everything that the child reported."""

    pages: int = 0
    damage: list[Damage] = field(default_factory=list)
    report: Report | None = None
    died: str = ""  # why the child ended early
    recoverable: str = ""  # what `recover` would save from a damaged file
    quarantined: list[dict[str, Any]] = field(
        default_factory=list
    )  # in etcd, if the folder is that of a node

    @property
    def wrong(self) -> int:
        return len(self.damage) + (self.report.wrong if self.report else 0) + bool(self.died)

    @property
    def sentences(self) -> list[str]:
        differences = self.report.differences if self.report else []
        return [*map(str, self.damage[:SHOWN]), *differences, *([self.died] if self.died else [])]


def add_flags(parser: Parser) -> None:
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        type=Path,
        nargs="?",
        help="the data folder, or a file (default: --data-dir)",
    )
    add_folder(parser)
    parser.add_argument("--file", type=Path, metavar="FILE", help="an exported or recorded file instead")
    parser.add_argument(
        "--digest-after",
        type=_offset,
        default=0,
        metavar="VERSION",
        help="digest of the events after it (default of all)",
    )
    add_output(parser, "json")
    for flag in _OF_SERVERS:
        parser.add_argument(flag, action=_RefusedServerFlag, help=argparse.SUPPRESS)


class _RefusedServerFlag(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        raise UsageError(
            f"{option_string}: the journal of a server is verified where its data folder is, with --data-dir FOLDER; "
            "or export it with `rewound export FILE` and verify the file"
        )


def _offset(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise argparse.ArgumentTypeError(f"{text!r} is not a version; give a number such as 1042")
    return int(text)


def run(options: Options, output: Output) -> int:
    if options.folder is not None and options.file is not None:
        raise UsageError("--file: names what to verify, and so does FOLDER; leave one of them out")
    refuse_second_folder(options, "FOLDER", options.folder)
    path = options.file or options.folder or options.data_dir
    if options.file is not None or path.is_file():
        with open_file(path) as opened:
            found = read_in_child([*CHILD, str(opened.journal.path), str(options.digest_after)])
    else:
        found = read_in_child([*CHILD, str(path / JOURNAL), str(options.digest_after)])
        found.quarantined = _read_quarantine(path)
    if options.output == "json":
        _print_document(output, path, found)
    else:
        _print(output, path, found)
    return 1 if found.wrong else 0


def _read_quarantine(folder: Path) -> list[dict[str, Any]]:
    """The quarantined events that a node last recorded in its data folder (docs/cluster.md)."""
    try:
        rows = json.loads(read_regular(folder / QUARANTINE))
        return [{name: one[name] for name in ("key", "version", "why")} for one in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Failure(
            f"{folder / QUARANTINE} cannot be read ({error}); a node that starts writes it again"
        ) from error


def read_in_child(command: Sequence[str]) -> Found:
    """Run the child and collect what it reports, even if a signal ends it."""
    found = Found()
    with (
        tempfile.TemporaryFile() as errors,
        Progress("verify") as progress,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child,
    ):
        assert child.stdout is not None
        read = _collect(found, child.stdout, progress)
        if child.wait() != 0:
            found.died = _how_child_ended(child.returncode, read, progress.total, errors)
    return found


def _collect(found: Found, lines: IO[str], progress: Progress) -> int:
    read = 0
    for line in lines:
        document = json.loads(line)
        if "refused" in document:
            raise Failure(document["refused"])
        if "progress" in document:
            read, total = document["progress"]
            progress(read, total)
        if "damage" in document:
            found.damage.append(Damage(**document["damage"]))
        if "recoverable" in document:
            found.recoverable = document["recoverable"]
        if "pages" in document:
            found.pages = document["pages"]
        if "report" in document:
            found.report = Report(**document["report"])
    return read


def _how_child_ended(code: int, read: int, total: int, errors: IO[bytes]) -> str:
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
    where = f"after {read} of {total}" if read else "at its beginning"
    errors.seek(0)
    last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
    return f"the process that read the file {how} {where}" + (f" ({last})" if last else "")


def _print(output: Output, path: Path, found: Found) -> None:
    if found.report is not None:
        report = found.report
        output.line(f"{report.events} events, {report.rows} objects, {report.snapshots} snapshots")
        output.line(f"digest {report.digest}")
    else:
        output.line(f"{found.pages} pages can be read; the records were not compared")
    for sentence in found.sentences:
        output.line(output.paint(f"wrong: {escaped(sentence)}", "red"))
    for one in found.quarantined:
        output.line(
            output.paint(
                f"quarantined in etcd since version {one['version']}: {escaped(one['key'])}: {escaped(one['why'])}",
                "yellow",
            )
        )
    if found.recoverable:
        output.line(found.recoverable)
    if found.wrong:
        output.line(f"{found.wrong} wrong: {ADVICE}")
    else:
        checked = "every page and checksum; state, indexes and counts equal a replay of all events"
        output.line(f"verified {escaped(str(path))}: {checked}")
        output.line(output.paint("sound", "green"))


def _print_document(output: Output, path: Path, found: Found) -> None:
    report = found.report or Report()
    output.json(
        {
            "verified": str(path),
            "sound": not found.wrong,
            "pages": found.pages,
            "events": report.events,
            "objects": report.rows,
            "snapshots": report.snapshots,
            "digest": report.digest,
            "wrong": found.wrong,
            "damage": [_document(damage) for damage in found.damage],
            "differences": report.differences + ([found.died] if found.died else []),
            "recoverable": found.recoverable,
            "quarantined": found.quarantined,
        }
    )


def _document(damage: Damage) -> dict[str, Any]:
    return {
        "page": damage.page,
        "database": damage.database,
        "what": damage.what,
        "means": damage.means,
    }
