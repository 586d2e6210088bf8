"""`rewound export`: write the journal to one portable file.

All events of the journal, each checked: with offset, time, user and content. A file name that ends in .gz is
compressed; - is stdout. `rewound import` creates a data folder from the file. To export the journal of a server, its
user needs the right to `get` /journal/feed.

    rewound export incident.journal.gz
    rewound export incident.journal.gz --server https://127.0.0.1:6443
    rewound export - | ssh backup 'cat > incident.journal'
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from rewound.cli.command import exit_on_sigterm
from rewound.cli.journal.flags import Options, Parser, add_output, add_source
from rewound.cli.journal.opening import folder_of
from rewound.cli.journal.printing import Output
from rewound.client.errors import Failure, UsageError
from rewound.journal.transfer import Header
from rewound.journal.transfer import export as write_export
from rewound.recording.progress import Progress
from rewound.recording.query.folder import Folder, open_file, open_folder
from rewound.server.memory_faults import explain_memory_faults

LEVEL = 6  # of compression: higher levels take twice as long and save a hundredth


def add_flags(parser: Parser) -> None:
    parser.add_argument("target", metavar="FILE", help="- is stdout; .gz is compressed")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_output(parser, "json")
    add_source(parser, "is refused: an export has all of them")


def run(options: Options, output: Output) -> int:
    if options.namespace:
        raise UsageError("--namespace: an export has all namespaces; leave it out")
    if options.target == "-":
        if options.output == "json" or options.force:
            raise UsageError("-o json and --force: not with -, which writes the journal to stdout")
        return _to_stdout(options)
    path = Path(options.target)
    is_device = path.exists() and not path.is_file()
    if not is_device and not options.force:
        check_no_refused(path)
    with (
        _opened(options) as folder,
        exit_on_sigterm(),
        _written(path, force=options.force) as stream,
    ):
        header = _export(folder, stream, compressed=path.suffix == ".gz")
        source = folder.path
    refused = None if is_device else copy_refused(source, path)
    if options.output == "json":
        also = {} if refused is None else {"refused": str(refused)}
        output.json({"file": str(path), "bytes": path.stat().st_size, **summary(header), **also})
    else:
        output.line(f"exported {header.events} events up to version {header.head} to {path}")
        if refused is not None:
            output.line(f"the requests that were refused are in {refused}: keep it beside the file")
    return 0


def check_no_refused(place: Path) -> None:
    """Raises Failure if there are refused requests of another recording beside a new file or folder."""
    from rewound.rewind.page.refused import refused_file

    if (left := refused_file(place)).exists():
        raise Failure(f"{left} has the refused requests of another recording; move it away, or remove it")


def copy_refused(source: Path, target: Path) -> Path | None:
    """Copy the refused requests of a folder or file; returns where to, or None if there are none."""
    from rewound.rewind.page.refused import refused_file

    old, new = refused_file(source), refused_file(target)
    if not old.is_file():
        new.unlink(missing_ok=True)
        return None
    if not (new.exists() and new.samefile(old)):
        new.unlink(missing_ok=True)
        # They name users: like the journal, only the owner may read them.
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream, old.open("rb") as lines:
            shutil.copyfileobj(lines, stream, 1 << 20)
    return new


@contextmanager
def _opened(options: Options) -> Iterator[Folder]:
    """Open the journal to export; that of a server is copied into a temporary folder."""
    folder = folder_of(options)
    if folder is None and options.file is None:
        # Imported when needed: it imports much of the server.
        from rewound.cli.journal.copying import copy_of_server

        with copy_of_server(options) as copy:
            yield copy
        return
    explain_memory_faults(folder or options.file)
    with open_folder(folder) if folder is not None else open_file(options.file) as opened:
        yield opened


def _to_stdout(options: Options) -> int:
    from rewound.rewind.page.refused import refused_file

    if sys.stdout.isatty():
        raise Failure("an export is not for a terminal; name a file, or redirect the output with `> FILE`")
    with _opened(options) as folder:
        _export(folder, sys.stdout.buffer, compressed=False)
        if (refused := refused_file(folder.path)).is_file():
            print(f"the requests that were refused are not in it: copy {refused} too", file=sys.stderr)
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
            # Without a timestamp the same journal gives the same bytes.
            with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=LEVEL, mtime=0) as packed:
                return write_export(view, cast(BinaryIO, packed), progress)


@contextmanager
def _written(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Open a file that gets its name when it is complete. It contains secrets, so only its owner can read it."""
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    if path.exists() and not force:
        raise Failure(f"{path} already exists; name another file, or replace it with --force")
    handle, name = _temporary_file(path)
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


def _temporary_file(path: Path) -> tuple[int, str]:
    """Create a temporary file beside `path`. Errors name `path`, because the user does not know the other."""
    if not path.parent.is_dir():
        raise Failure(
            f"{path}: the folder {path.parent} does not exist; create it first, or name another file"
        )
    try:
        return tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
