"""`rewound import audit` and `rewound import kwok`: make a journal of an audit log or a recording of kwokctl.

rewound import audit audit.log incident             an audit log of any API server, as a data folder
rewound import audit audit-*.log audit.log.gz incident.journal.gz
rewound import audit entries.json incident          what GKE, EKS or AKS exported
rewound import kwok recording.yaml incident         what `kwokctl snapshot record` wrote
rewound import incident.journal.gz --data-dir x     a file of `rewound export`

OUT is a new data folder; or one file, if it ends in .journal or .journal.gz. Files may be compressed with gzip; - is
stdin. Values of Secrets are masked unless --with-secrets is given.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import shlex
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import merge
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from rewound.cli.access.flags import Options, Parser
from rewound.cli.command import exit_on_sigterm, run_command
from rewound.cli.record import FILES, export
from rewound.client.errors import Failure, UsageError
from rewound.journal.errors import JournalError
from rewound.journal.files.private import private_folder
from rewound.recording.progress import Progress

if TYPE_CHECKING:
    from rewound.journal.log import Journal
    from rewound.recording.record.audit_import import Summary
    from rewound.recording.record.requests import Request
    from rewound.recording.record.writer import RecordingWriter

_GZIP = b"\x1f\x8b"
_TAIL = 1 << 20  # bytes at the end of a recording, which have its last change
_MOST_SEARCHED = 10_000  # lines or entries of a log, for its first event: exports have other logs, too


def run(arguments: Sequence[str]) -> int:
    """`rewound import audit`, `rewound import kwok`, or else the import of a file of `rewound export`."""
    what, *rest = arguments or [""]
    if what not in IMPORTS:
        from rewound.cli.journal.commands import journal

        return journal(["import", *arguments], "rewound")
    return run_command(lambda: _run(what, rest), [(UsageError, 2), ((Failure, JournalError, OSError), 1)])


def _run(what: str, arguments: Sequence[str]) -> int:
    parser = Parser(f"rewound import {what}", __doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="in any order; - is stdin")
    parser.add_argument("out", type=Path, metavar="OUT", help="a new folder, or a file .journal[.gz]")
    parser.add_argument(
        "--with-secrets", action="store_true", help="keep the values of Secrets (default: masked)"
    )
    if what == "kwok":
        parser.add_argument(
            "--start",
            type=_moment,
            metavar="TIME",
            help="when the recording began (default: by the file's age)",
        )
    options = parser.parse_args(arguments)
    out: Path = options.out
    as_file = out.name.endswith(FILES)
    if out.exists() and (as_file or not out.is_dir() or any(out.iterdir())):
        raise Failure(f"{out} already exists; name a new folder or file, or remove it")
    existed = out.exists()
    if as_file:
        from rewound.cli.journal.export import check_no_refused

        check_no_refused(out)
        # A folder with a unique name: the one named after the file may belong to a running `rewound record`.
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    else:
        folder = out
        private_folder(folder)
    try:
        with exit_on_sigterm():
            IMPORTS[what](options, folder)
    except BaseException:
        # A part of a log would look like the whole.
        shutil.rmtree(folder)
        if existed:
            folder.mkdir(mode=0o700)
        raise
    if as_file:
        export(folder, out)
    return 0


def _import_audit(options: Options, folder: Path) -> None:
    from rewound.actors.names import NAMES
    from rewound.recording.record.audit_import import AuditImport
    from rewound.recording.record.refused import RefusedRequests
    from rewound.recording.record.writer import RecordingWriter

    with ExitStack() as stack:
        logs = [stack.enter_context(_Log.opened(file)) for file in options.files]
        journal = stack.enter_context(_closed(_new_journal(folder, _dialect(logs))))
        refused = RefusedRequests(folder, with_secrets=options.with_secrets)
        stack.callback(refused.close)
        writer = RecordingWriter(journal)
        importing = AuditImport(writer, NAMES[journal.dialect], refused, with_secrets=options.with_secrets)
        progress = stack.enter_context(Progress("import", sum(log.size for log in logs)))
        # Rotated files are consecutive, those of several servers of a cluster are not.
        for request in merge(*(log.requests() for log in logs), key=lambda one: one.time):
            importing.take(request)
            progress(sum(log.position for log in logs))
        summary = importing.finish()
        if not writer.events and not summary.refused:
            raise Failure(_nothing_in(summary, logs))
        _print(options.out, writer, summary, logs)
        if refused.left_out:
            _say(f"{refused.left_out:,} refused requests are left out: there are too many")


def _new_journal(folder: Path, dialect: str) -> Journal:
    """The journal of an import, in the default version: the files do not say which one their server was."""
    from rewound.actors.versions.version import check_version, record_of
    from rewound.journal.log import Journal

    version = record_of(check_version(dialect, ""))
    return Journal.open(folder / "journal", dialect=dialect, kubernetes=version)


def _import_kwok(options: Options, folder: Path) -> None:
    from rewound.actors.names import NAMES
    from rewound.recording.record.kwok_import import KwokImport, NoRecording, documents_in
    from rewound.recording.record.writer import RecordingWriter

    if len(options.files) != 1:
        raise UsageError("import kwok: name one FILE and OUT; a recording of kwokctl is one file")
    [file] = options.files
    with ExitStack() as stack:
        raw: BinaryIO = sys.stdin.buffer if file == "-" else stack.enter_context(Path(file).open("rb"))
        journal = stack.enter_context(_closed(_new_journal(folder, "kubernetes")))
        writer = RecordingWriter(journal)
        try:
            start = options.start
            if start is None:
                raw = raw if raw.seekable() else stack.enter_context(_copied(raw, folder))
                start = _start_of(raw)
            importing = KwokImport(writer, NAMES["kubernetes"], start, with_secrets=options.with_secrets)
            size = os.fstat(raw.fileno()).st_size if raw.seekable() else 0
            progress = stack.enter_context(Progress("import", size))
            for document in documents_in(_decompressed(raw)):
                importing.take(document)
                progress(raw.tell() if size else 0)
        except (NoRecording, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Failure(f"{file} is not a recording of kwokctl: {error}") from error
        importing.finish()
        if not writer.events:
            raise Failure(f"{file} is not a recording of kwokctl: it has no objects")
        _say(f"imported {writer.events:,} events into {options.out}")
        for what, count in importing.missing.most_common(10):
            _say(f"{count:,} documents are left out: {what}")


@contextmanager
def _copied(pipe: BinaryIO, folder: Path) -> Iterator[BinaryIO]:
    """Copy a pipe to an unnamed file, because the start of a recording is computed from its end."""
    with tempfile.TemporaryFile(dir=folder) as copy:
        shutil.copyfileobj(pipe, copy, 1 << 20)
        copy.flush()
        copy.seek(0)
        yield cast(BinaryIO, copy)


def _start_of(raw: BinaryIO) -> int:
    """When a recording began, in nanoseconds since 1970, if its last change is as old as its file.

    Leaves the position in the file as it was.
    """
    from rewound.recording.record.kwok_import import last_duration

    begin, tail = raw.tell(), b""
    stream = _decompressed(raw)
    if stream is raw:
        raw.seek(max(begin, raw.seek(0, os.SEEK_END) - _TAIL))
    while chunk := stream.read(_TAIL):
        tail = (tail + chunk)[-_TAIL:]
    raw.seek(begin)
    return os.fstat(raw.fileno()).st_mtime_ns - last_duration(tail)


def _moment(text: str) -> int:
    from rewound.recording.record.requests import micros

    try:
        return micros(text) * 1000
    except (ValueError, TypeError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-11-17T10:00:00Z") from None


def _nothing_in(summary: Summary, logs: list[_Log]) -> str:
    """Why an import has no events."""
    text = f"{', '.join(log.name for log in logs[:10])}: no request that changed an object, or was refused"
    why = [f"{count:,} requests: {what}" for what, count in summary.missing.most_common(10)]
    why += [f"{log.unreadable:,} lines or events: {log.problem}" for log in logs[:10] if log.unreadable]
    return f"{text} ({'; '.join(why)})" if why else text


def _print(out: Path, writer: RecordingWriter, summary: Summary, logs: list[_Log]) -> None:
    _say(
        f"imported {writer.events:,} events up to version {writer.head} from {summary.requests:,} requests into {out}"
    )
    if summary.refused:
        flag = "--file" if out.name.endswith(FILES) else "--data-dir"
        _say(
            f"{summary.refused:,} requests were refused: `rewound log {flag} {shlex.quote(str(out))}` shows them"
        )
    for what, count in summary.missing.most_common():
        _say(f"{count:,} requests are left out: {what}")
    for log in logs:
        if log.unreadable:
            _say(f"{log.unreadable:,} lines or events of {log.name} are left out: {log.problem}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)


class _Log:
    """A log file: the dialect of its server, its requests, and how far it is read."""

    def __init__(self, name: str, stream: BinaryIO, raw: BinaryIO, size: int) -> None:
        self.name = name
        self.size = size  # in bytes, compressed if the file is
        self.unreadable, self.problem = (
            0,
            "",
        )  # lines that are no audit event, and what is wrong with the first
        self._raw = raw
        self._lines = _lines_of(name, stream)
        self._first, self.dialect = _start_of_log(self._lines)

    @classmethod
    @contextmanager
    def opened(cls, file: str) -> Iterator[_Log]:
        if file == "-":
            yield cls("stdin", _decompressed(sys.stdin.buffer), sys.stdin.buffer, 0)
            return
        with Path(file).open("rb", buffering=1 << 20) as raw:
            yield cls(file, _decompressed(raw), raw, os.fstat(raw.fileno()).st_size)

    @property
    def is_empty(self) -> bool:
        return not self._first

    @property
    def position(self) -> int:
        """How many bytes of the file have been read."""
        return self._raw.tell() if self.size else 0

    def requests(self) -> Iterator[Request]:
        from rewound.recording.record.requests import Unreadable, requests_in

        first, self._first = self._first, []
        for line in chain(first, self._lines):
            try:
                yield from requests_in(line)
            except Unreadable as error:
                self.unreadable += error.events
                self.problem = self.problem or str(error)


def _start_of_log(lines: Iterator[bytes]) -> tuple[list[bytes], str]:
    """The first lines up to one that is an audit event, and the dialect that it has; empty without one.

    The first line of a file may be a part of one, after a rotation, or what a container wrote before.
    """
    from rewound.recording.record.requests import LONGEST_LINE, dialect_in

    first: list[bytes] = []
    for line in islice(lines, _MOST_SEARCHED):
        first.append(line)
        if found := dialect_in(line):
            return first, found
        if sum(map(len, first)) > LONGEST_LINE:
            break
    return first, ""


def _dialect(logs: list[_Log]) -> str:
    from rewound.recording.record.requests import GROUPS

    for log in logs:
        if log.dialect:
            return log.dialect
    if all(log.is_empty for log in logs):
        raise Failure(
            f"{', '.join(log.name for log in logs[:10])}: there is nothing in it; name an audit log"
        )
    raise Failure(
        f"{logs[0].name} is not an audit log: none of its first {_MOST_SEARCHED:,} lines is an Event or EventList of "
        f"{' or '.join(GROUPS)}, or an entry of GKE, EKS or AKS that has one; logs in the legacy format have too "
        "little to import"
    )


def _lines_of(name: str, stream: BinaryIO) -> Iterator[bytes]:
    """Read events, of an export too. Raises Failure if the compression is damaged."""
    from rewound.recording.record.audit_exports import audit_lines

    try:
        yield from audit_lines(stream)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        whole = f"gzip -dc {shlex.quote(name)} | rewound import audit - OUT"
        raise Failure(f"{name}: {error}; copy it again, or import what is sound: {whole}") from error


def _decompressed(stream: BinaryIO) -> BinaryIO:
    buffered = cast(io.BufferedReader, stream)
    if buffered.peek(2)[:2] == _GZIP:
        return cast(BinaryIO, io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=buffered)), 1 << 20))
    return buffered


@contextmanager
def _closed(journal: Any) -> Iterator[Any]:
    try:
        yield journal
    finally:
        journal.close()


IMPORTS: dict[str, Callable[[Options, Path], None]] = {"audit": _import_audit, "kwok": _import_kwok}
