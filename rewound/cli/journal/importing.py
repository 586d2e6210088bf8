"""`rewound import`: create a new data folder from an export.

Offsets, times, users, contents and state are the same; every checksum is verified. The folder must not have a
journal. A damaged file is refused with the position of the damage, and the command leaves nothing.

    rewound import incident.journal.gz --data-dir incident
    rewound log --data-dir incident
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rewound.cli.command import exit_on_sigterm
from rewound.cli.journal.export import check_no_refused, copy_refused, summary
from rewound.cli.journal.flags import Options, Parser, add_folder, add_output
from rewound.cli.journal.printing import Output
from rewound.journal.transfer import Header, restore
from rewound.recording.compressed import decompressed
from rewound.recording.progress import Progress
from rewound.recording.query.source import JOURNAL


def add_flags(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="- is stdin; compressed or not")
    add_folder(parser)
    add_output(parser, "json")


def run(options: Options, output: Output) -> int:
    target = options.data_dir / JOURNAL
    if options.data_dir.is_dir() and not target.exists():
        check_no_refused(options.data_dir)
    with exit_on_sigterm(), _read(options.file) as stream, Progress("import") as progress:
        header = restore(stream, target, progress)
    refused = None if options.file == "-" else copy_refused(Path(options.file), options.data_dir)
    if options.output == "json":
        output.json({"folder": str(options.data_dir), **summary(header)})
    else:
        _print(output, options.data_dir, header)
        if refused is not None:
            output.line("the requests that were refused are there too")
    return 0


def _print(output: Output, folder: Path, header: Header) -> None:
    output.line(f"imported {header.events} events up to version {header.head} into {folder}")
    dialect = "" if header.dialect == "cluster" else f" --dialect {header.dialect}"
    output.line(f"serve it with: rewound serve --data-dir {shlex.quote(str(folder))}{dialect}")


@contextmanager
def _read(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield decompressed(sys.stdin.buffer)
    else:
        with Path(file).open("rb") as stream:
            yield decompressed(stream)
