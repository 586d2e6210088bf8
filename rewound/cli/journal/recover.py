"""`rewound recover`: save what is sound in a damaged folder into a new one, and list what is lost.

It reads the file page by page, without LMDB. Every record that it keeps has a right checksum. Where the newest version
of an object is lost, the new folder has the newest one that is left, under a new version. Where events are lost, the
history of the new folder begins after them. Versions never decrease. The damaged folder is not changed; no server may
use it while this command runs.

    rewound recover rewound-data recovered
    rewound serve --data-dir recovered
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path

from rewound.actors.rewind.difference import escaped
from rewound.cli.command import exit_on_sigterm
from rewound.cli.journal.flags import Options, Parser, add_folder, add_output, refuse_second_folder
from rewound.cli.journal.printing import Output
from rewound.client.errors import Failure
from rewound.journal.repair.recover import LostObject, Recovered
from rewound.journal.repair.recover import recover as recover_journal
from rewound.recording.progress import Progress
from rewound.recording.query.source import JOURNAL

SHOWN = 100  # lines of each list; JSON has all


def add_flags(parser: Parser) -> None:
    parser.add_argument(
        "damaged",
        metavar="DAMAGED",
        type=Path,
        nargs="?",
        help="the damaged data folder (default: --data-dir)",
    )
    parser.add_argument("new", metavar="NEW", type=Path, help="the data folder to create")
    parser.add_argument(
        "--dialect",
        choices=("cluster", "kubernetes"),
        help="needed only where the folder's own record is lost",
    )
    add_folder(parser)
    add_output(parser, "json")


def run(options: Options, output: Output) -> int:
    damaged, new = options.damaged or options.data_dir, options.new
    refuse_second_folder(options, "DAMAGED", options.damaged)
    if new.exists():
        raise Failure(f"{new} exists; name a folder that does not")
    with exit_on_sigterm(), Progress("recover") as progress:
        found = recover_journal(damaged / JOURNAL, new / JOURNAL, options.dialect, progress.step)
    if options.output == "json":
        output.json({"folder": str(new), "complete": _complete(found), **asdict(found)})
    else:
        _print(output, damaged, new, found)
    return 0


def _complete(found: Recovered) -> bool:
    return not (found.lost_objects or found.lost_events or found.events_from_state or found.unknown)


def _print(output: Output, damaged: Path, new: Path, found: Recovered) -> None:
    output.line(f"read {found.source}")
    for sentence in found.damage[:SHOWN]:
        output.line(f"damaged: {escaped(sentence)}")
    for lost in found.lost_objects[:SHOWN]:
        output.line(output.paint(f"lost: {escaped(_lost(lost))}", "red"))
    _print_more(output, len(found.lost_objects), "objects")
    _print_events(output, found)
    if found.unknown:
        output.line(output.paint("more may be lost: nothing is left that names what was there", "red"))
    output.line(f"recovered {found.objects} objects and {found.events} events up to {found.head} into {new}")
    if _complete(found):
        output.line(output.paint("nothing is lost", "green"))
    _print_next(output, damaged, new, found)


def _lost(lost: LostObject) -> str:
    name = f"{lost.namespace}/{lost.name}" if lost.namespace else lost.name
    instead = f"it has the content of version {lost.restored}" if lost.restored else "nothing is left of it"
    return f"{lost.type_name} {name}, version {lost.newest}: {instead}"


def _print_more(output: Output, count: int, what: str) -> None:
    if count > SHOWN:
        output.line(f"... {count - SHOWN} more {what}; -o json lists all")


def _print_events(output: Output, found: Recovered) -> None:
    if found.lost_events:
        shown = ", ".join(map(str, found.lost_events[:SHOWN]))
        output.line(output.paint(f"lost: {len(found.lost_events)} events: {shown}", "red"))
        _print_more(output, len(found.lost_events), "events")
    if found.events_from_state:
        text = f"{len(found.events_from_state)} events have their content from the state: user, verb and time are lost"
        output.line(output.paint(text, "yellow"))
    if found.floor > found.floor_before:
        output.line(f"the history begins at version {found.floor}; it began at {found.floor_before}")


def _print_next(output: Output, damaged: Path, new: Path, found: Recovered) -> None:
    old, target = shlex.quote(str(damaged)), shlex.quote(str(new))
    dialect = "" if found.dialect == "cluster" else f" --dialect {found.dialect}"
    if (damaged / "pki").exists():
        output.line(f"copy the certificates with: cp -a {old}/pki {target}/")
    output.line(f"serve it with: rewound serve --data-dir {target}{dialect}")
