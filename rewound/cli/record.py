"""`rewound record`: capture a running server into a journal, to read, replay and serve it elsewhere.

Lists and watches every kind of the server, custom ones too, and writes what arrives into OUT: a data
folder, which a second run continues; or one file, if OUT ends in .journal or .journal.gz. Values of
Secrets are masked unless --with-secrets is given. Ctrl-C ends it.

rewound record incident                                        everything that $KUBECONFIG may read
rewound record --kubeconfig prod.yaml --duration 10m incident.journal.gz
rewound record --kinds pods,deployments.apps -n shop incident  only these, only in one namespace
rewound journal log --data-dir incident                        what happened
"""

from __future__ import annotations

import logging
import shlex
import shutil
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options, Parser, add_connection, chosen_target
from rewound.cli.audit_webhook import add_audit_webhook, chosen_sink, listening_error, print_sink
from rewound.cli.command import cancel_on_signal, only_error
from rewound.client.errors import ClientError, Failure, UsageError
from rewound.journal.errors import JournalError
from rewound.recording.progress import Progress as ListingProgress
from rewound.server.flags.values import duration

if TYPE_CHECKING:
    from rewound.client.streaming import StreamingSession
    from rewound.client.target import Target
    from rewound.recording.record.authors import Statistics
    from rewound.recording.record.recorder import Progress, Recorder, RecordOptions
    from rewound.recording.record.writer import RecordingWriter

FILES = (".journal", ".journal.gz")
UNFINISHED = ".recording"  # suffix of the folder from which a file is made at the end


def record(arguments: Sequence[str]) -> int:
    parser = Parser("rewound record", __doc__)
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="a folder, or a file that ends in .journal[.gz]"
    )
    parser.add_argument(
        "--kinds", metavar="KIND,...", help="only these: pods, cm, deployments.apps (default all)"
    )
    parser.add_argument(
        "--duration", type=duration, metavar="TIME", help="end after this long (default: when stopped)"
    )
    parser.add_argument(
        "--with-secrets", action="store_true", help="record the values of Secrets (default: masked)"
    )
    parser.add_argument(
        "--websocket",
        action="store_true",
        help="watch over WebSockets, if something on the way to the server holds back or cuts long responses",
    )
    parser.add_argument(
        "--audit-log",
        default="",
        metavar="FILE",
        help="follow this audit log of the server (- is stdin): users, verbs, sources, refused requests",
    )
    add_audit_webhook(parser)
    add_connection(parser, "only what is in this namespace (default: everything)")
    try:
        return _record(parser.parse_args(arguments))
    except UsageError as error:
        return _fail(error, 2)
    except (ClientError, Failure, JournalError, OSError) as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        return 130


def _record(options: Options) -> int:
    from rewound.recording.record.recorder import RecordOptions

    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter("rewound: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("rewound.recording.record").setLevel(logging.INFO)
    out: Path = options.out
    as_file = out.name.endswith(FILES)
    if as_file and out.exists():
        raise Failure(f"{out} already exists; name another file")
    if as_file:
        from rewound.cli.journal.export import check_no_refused

        check_no_refused(out)
    if not as_file and out.is_file():
        raise Failure(f"{out} is a file; name a folder, or a file that ends in {' or '.join(FILES)}")
    target = chosen_target(options)
    folder = out.with_name(out.name + UNFINISHED) if as_file else out
    chosen = RecordOptions(
        kinds_of(options.kinds),
        options.namespace,
        options.with_secrets,
        options.duration,
        options.audit_log,
        chosen_sink(options),
    )
    recorder = _run(target, folder, chosen, websocket=options.websocket)
    _print_summary(recorder.writer, out)
    if recorder.authors is not None:
        _print_authors(recorder.authors)
    if recorder.sink is not None:
        print_sink(recorder.sink.statistics)
    if as_file:
        export(folder, out)
    flag = "--file" if as_file else "--data-dir"
    print(f"to look at it: rewound open {flag} {shlex.quote(str(out))}", file=sys.stderr)
    return 0


def kinds_of(text: str | None) -> tuple[str, ...]:
    """The kinds of a comma-separated list; none without the flag. Raises UsageError for an empty entry."""
    if text is None:
        return ()
    found = tuple(one.strip() for one in text.split(","))
    if not all(found):
        raise UsageError(f"--kinds: {text!r} has an empty entry; name kinds, or leave --kinds out")
    return found


@asynccontextmanager
async def recording_session(
    target: Target, agent: str = "rewound", *, websocket: bool
) -> AsyncIterator[StreamingSession]:
    """A session for watches of every kind, whose connections end with the block."""
    if not websocket:
        from rewound.client.http2 import http2_session

        async with http2_session(target, agent) as session:
            yield session
        return
    import trio

    from rewound.client.websocket import WebSocketSession

    separate = WebSocketSession(target, agent)
    try:
        yield separate
    finally:
        with trio.move_on_after(2, shield=True):
            await separate.aclose()


def _run(target: Target, folder: Path, options: RecordOptions, *, websocket: bool) -> Recorder:
    import trio

    from rewound.recording.record.kinds import UnknownKind
    from rewound.recording.record.recorder import Recorder, TooLarge

    line = ProgressLine()

    async def until_stopped() -> Recorder:
        async with recording_session(target, websocket=websocket) as session:
            recorder = Recorder(session, folder, options, lambda: time.time_ns() // 1000, line)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel_on_signal, nursery.cancel_scope)
                try:
                    await recorder.run()
                finally:
                    nursery.cancel_scope.cancel()
        return recorder

    try:
        with line:
            recorder = trio.run(until_stopped)
        if not recorder.started.is_set():
            raise Failure("stopped before all kinds were listed: nothing was recorded")
        return recorder
    except BaseExceptionGroup as group:
        error = only_error(group)
        if isinstance(error, UnknownKind):
            raise UsageError(str(error)) from group
        if isinstance(error, TooLarge):
            raise Failure(str(error)) from group
        raise listening_error(error) from group


class EscapingFormatter(logging.Formatter):
    """Escapes control characters: messages may quote the server, which could send them to the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record))


class ProgressLine:
    """A line on stderr that changes, on a terminal; elsewhere one line when the recording begins.

    Before that, it shows how far the first lists are, if they take long.
    """

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next = 0.0
        self._begun = False
        self._listing = ListingProgress("record: list kinds")

    def __enter__(self) -> ProgressLine:
        self._listing.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._listing.__exit__(*raised)
        if self._terminal and self._begun:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def __call__(self, progress: Progress) -> None:
        if progress.listed < progress.kinds or not progress.events:
            self._listing(progress.listed, progress.kinds)
            return
        self._listing.__exit__(None, None, None)
        text = f"{progress.objects:,} objects of {progress.kinds} kinds, {progress.events:,} events recorded"
        if self._terminal and time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.2
            print(f"\rrecording: {text}\x1b[K", end="", file=sys.stderr, flush=True)
        elif not self._terminal and not self._begun:
            print(f"rewound: recording {text}", file=sys.stderr, flush=True)
        self._begun = True


def _print_summary(writer: RecordingWriter, out: Path) -> None:
    print(f"recorded {writer.events:,} events up to version {writer.head} into {out}", file=sys.stderr)
    if writer.renumbered:
        print(
            f"{writer.renumbered:,} of them have another version than on the server; their reason says which",
            file=sys.stderr,
        )


def _print_authors(found: Statistics) -> None:
    """Print how many events the audit log named a user for, and how many of its requests matched no event."""
    text = f"the audit log names the users of {found.exact + found.guessed:,} events"
    if found.guessed:
        text += f", {found.guessed:,} of them as a guess"
    print(f"{text}; {found.unknown:,} have no request in it", file=sys.stderr)
    if found.late:
        print(f"{found.late:,} of them were named after the event had been written", file=sys.stderr)
    left = {
        "matched no event": found.unused,
        "were refused": found.refused,
        "that were refused are left out: there are too many": found.too_many,
    }
    for what, count in left.items():
        if count:
            print(f"{count:,} requests of the audit log {what}", file=sys.stderr)
    if found.unreadable:
        print(f"{found.unreadable:,} lines or events of the audit log are not audit events", file=sys.stderr)


def export(folder: Path, out: Path) -> None:
    """Export the folder to the file, then remove it. Refused requests get a file beside it."""
    from rewound.cli.journal.commands import journal

    code = journal(["export", "--data-dir", str(folder), str(out)])
    if code:
        raise Failure(f"the recording stays in {folder}; export it with `rewound journal export`")
    shutil.rmtree(folder)


def _fail(error: Exception, code: int) -> int:
    print("rewound: " + "\n".join(map(escaped, str(error).split("\n"))), file=sys.stderr)
    return code
