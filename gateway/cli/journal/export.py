"""`rewound journal export`: write the journal to one portable file.

Everything that is kept, checked record by record: events with their offsets, times, users and contents. A name
that ends in .gz is compressed; - is stdout. `rewound journal import` makes a data folder of it.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from gateway.cli.journal.ending import orderly
from gateway.cli.journal.printing.output import Output
from gateway.cli.journal.printing.progress import Progress
from gateway.cli.journal.query.failure import Failure
from gateway.cli.journal.query.flags import Options, Parser, add_output
from gateway.cli.journal.query.folder import Folder, opened
from journal.transfer.export import Header
from journal.transfer.export import export as write_export

LEVEL = 6  # of compression: the next ones cost twice the time for a hundredth of the size


def add_flags(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="- is stdout; .gz is compressed")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_output(parser, "json")


def run(options: Options, output: Output) -> int:
    if options.file == "-":
        return _to_stdout(options)
    path = Path(options.file)
    with opened(options.data_dir) as folder, orderly(), _written(path, force=options.force) as stream:
        header = _export(folder, stream, compressed=path.suffix == ".gz")
    if options.output == "json":
        output.json({"file": str(path), "bytes": path.stat().st_size, **summary(header)})
    else:
        output.line(f"exported {header.events} events up to offset {header.head} to {path}")
    return 0


def _to_stdout(options: Options) -> int:
    if sys.stdout.isatty():
        raise Failure("an export is not for a terminal; name a file, or put `> FILE` or `| ...` behind it")
    with opened(options.data_dir) as folder:
        _export(folder, sys.stdout.buffer, compressed=False)
    return 0


def summary(header: Header) -> dict[str, object]:
    return {
        "events": header.events,
        "head": header.head,
        "floor": header.floor,
        "dialect": header.dialect,
        "types": header.types,
    }


def _export(folder: Folder, stream: BinaryIO, *, compressed: bool) -> Header:
    with folder.journal.read() as view:
        total = view.txn.stat(view.databases.events)["entries"]
        with Progress("export", total) as progress:
            if not compressed:
                return write_export(view, stream, progress)
            # Without a time in it, the same journal gives the same bytes.
            with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=LEVEL, mtime=0) as packed:
                return write_export(view, cast(BinaryIO, packed), progress)


@contextmanager
def _written(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file that appears under its name when it is whole. It holds secrets, so only its owner may read it."""
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    if path.exists() and not force:
        raise Failure(f"{path} is there already; name another file, or replace it with --force")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(handle)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
