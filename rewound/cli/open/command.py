"""`rewound open`: show the journal in a browser, signed in.

Starts a browser at the page of a server, as the user of the kubeconfig file, whatever credentials it has: the browser
needs no token, no client certificate, and no CA. Or it shows a data folder or a recorded file, without a server.

  rewound open                                  what happened
  rewound open deployment web -n shop           an object, at its last change
  rewound open pods -n shop                     a kind, in a namespace
  rewound open --at 12:03                       a moment
  rewound open --data-dir rewound-data          a folder, of a server that has stopped or runs
  rewound open --file incident.journal.gz       what `rewound record` or `rewound export` wrote
  rewound open --no-browser                     only print the link

The page works until Ctrl-C. It is served on 127.0.0.1 to the browser that used the link, which has one use within a
minute; Enter makes a new one.

A MOMENT is a version (1042), a time (2026-11-15T04:07:33Z), a time of day (12:03) or how long ago (10m).
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING

import trio

from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options, Parser, add_connection, open_session
from rewound.cli.command import Failures, exit_on_sigterm, run_command
from rewound.cli.journal.flags import moment
from rewound.cli.open.browser import start_browser, tunnel, why_unseen
from rewound.client.errors import ClientError, Failure, StatusError, UsageError
from rewound.client.kubeconfig import DATA_FOLDER_FILE
from rewound.client.target import Target
from rewound.journal.errors import JournalError
from rewound.server.flags.values import duration, port

if TYPE_CHECKING:
    from rewound.cli.open.view import View
    from rewound.client.streaming import StreamingSession
    from rewound.journal.recording import Recording

_USER = "reader"  # who reads a recording, which has no users
_OF_SERVERS = ("kubeconfig", "context", "server", "certificate_authority", "token", "as_user", "as_group")


def run(arguments: Sequence[str]) -> int:
    parser = Parser("rewound open", __doc__)
    _add_flags(parser)
    failures: Failures = ((UsageError, 2), ((ClientError, Failure, JournalError, OSError), 1))
    return run_command(lambda: _open(_checked(parser.parse_args(arguments))), failures)


def _add_flags(parser: Parser) -> None:
    parser.add_argument(
        "kind", metavar="KIND", nargs="?", default="", help="Pod, pods, po or deployments.apps"
    )
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="of one object")
    parser.add_argument("--at", type=moment, metavar="MOMENT", help="begin at this moment")
    parser.add_argument(
        "--data-dir", type=Path, metavar="FOLDER", help="show this data folder, without a server"
    )
    parser.add_argument("--file", type=Path, metavar="FILE", help="show this exported or recorded journal")
    parser.add_argument("--no-browser", action="store_true", help="print the link, and start no browser")
    parser.add_argument(
        "--port", type=port, default=0, metavar="PORT", help="of 127.0.0.1 (default: one that is free)"
    )
    parser.add_argument(
        "--duration",
        type=duration,
        default=inf,
        metavar="TIME",
        help="end after so long (default: at Ctrl-C)",
    )
    add_connection(parser)


def _checked(options: Options) -> Options:
    """Raises UsageError for flags that do not fit together."""
    if options.port > 65535:
        raise UsageError(f"--port: {options.port} is not a port; give a number up to 65535, or leave it out")
    given = [flag for flag in ("data_dir", "file") if getattr(options, flag) is not None]
    if len(given) > 1:
        raise UsageError("--data-dir and --file: give one of them")
    for name in _OF_SERVERS if given else ():
        if getattr(options, name):
            flag = "--" + name.removesuffix("_user").replace("_", "-")
            raise UsageError(
                f"{flag}: has no effect with --{given[0].replace('_', '-')}; leave one of them out"
            )
    if options.data_dir is not None and not options.data_dir.is_dir():
        raise UsageError(f"--data-dir: there is no folder {options.data_dir}; a file is opened with --file")
    if options.file is not None and not options.file.is_file():
        raise UsageError(f"--file: there is no file {options.file}; a folder is opened with --data-dir")
    return options


def _open(options: Options) -> int:
    source: Path | None = options.data_dir or options.file
    if source is None:
        return _run(_Opening(options, _load_target(options)))
    from rewound.recording.progress import Progress
    from rewound.recording.replay.source import open_source

    with ExitStack() as stack:
        stack.enter_context(exit_on_sigterm())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rewound-open-")))
        with Progress("import") as progress:
            recording = stack.enter_context(open_source(source, folder, progress))
        return _run(_Opening(options, None, recording, folder))


def _load_target(options: Options) -> Target:
    with open_session(options) as session:
        return session.target


class _Opening:
    """One run of the command: the server, or a recording that it serves itself, and the listener in front of it."""

    def __init__(
        self,
        options: Options,
        target: Target | None,
        recording: Recording | None = None,
        folder: Path = Path(),
    ) -> None:
        """Without a `target`, serve the `recording`, with the temporary `folder`."""
        self._options, self._target, self._recording, self._folder = options, target, recording, folder

    async def run(self) -> None:
        from rewound.cli.command import cancel_on_signal

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_on_signal, nursery.cancel_scope)
            target = self._target or await nursery.start(self._serve_recording)
            await self._show(target, nursery)
            await trio.sleep(self._options.duration)
            nursery.cancel_scope.cancel()

    async def _serve_recording(self, task_status: trio.TaskStatus[Target] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve the end of the recording on a free loopback port. Only this process has the token."""
        from rewound.client.credentials import Credential, FixedCredential, bearer
        from rewound.gateway.settings.server_config import ServerSettings, host_and_port
        from rewound.gateway.settings.settings import Addresses, Settings
        from rewound.recording.replay.control import ReplayControl
        from rewound.recording.replay.player import Player
        from rewound.recording.replay.replay import Plan, replay_settings, run_replay
        from rewound.server.extensions import Extensions

        token, options = token_urlsafe(32), self._options
        tokens, config = self._folder / "tokens.csv", self._folder / "server.toml"
        tokens.touch(0o600)
        tokens.write_text(f"{token},{_USER},{_USER}\n")
        config.write_text('insecure_bind = ["127.0.0.1:0"]\n')
        assert self._recording is not None
        settings = replay_settings(
            self._recording,
            self._folder / "data",
            Settings,
            secure_port=0,
            token_auth_file=tokens,
            server=ServerSettings(server_config=config),
        )

        def ready(addresses: Addresses, control: ReplayControl, player: Player) -> None:
            assert addresses.insecure is not None
            task_status.started(
                Target(
                    server=f"http://{host_and_port(*addresses.insecure)}",
                    credentials=FixedCredential(Credential(bearer(token))),
                    configured_in=str(options.data_dir or options.file),
                    namespace=options.namespace or "default",
                )
            )

        extensions = Extensions(replayed=options.data_dir or options.file)
        await run_replay(settings, self._recording, Plan(), ready, trio.Event(), extensions)

    async def _show(self, target: Target, nursery: trio.Nursery) -> None:
        # Imported only now: reporting a wrong flag should not take as long.
        from rewound.cli.open.listener import PageListener
        from rewound.client.streaming import StreamingSession

        options, session = self._options, StreamingSession(target)
        view = await self._find_view(session)
        listener = PageListener(session, view.path, _report)
        await nursery.start(listener.serve, options.port)
        link, screen = listener.gate.new_link(), why_unseen()
        print(self._banner(target, view.user, link), flush=True)
        if options.no_browser or screen:
            why = "" if options.no_browser else f"No browser is started: {screen}. "
            print(f"{why}From another machine, first: {tunnel(listener.port)}\n", flush=True)
        else:
            nursery.start_soon(_start_browser, link)
        if sys.stdin is not None and sys.stdin.isatty():
            nursery.start_soon(_renew_on_enter, listener.gate.new_link)

    def _banner(self, target: Target, user: str, link: str) -> str:
        options = self._options
        subject = options.data_dir or options.file or target.server
        until = "until Ctrl-C" if options.duration == inf else f"for {options.duration:g} s, or until Ctrl-C"
        lines = [
            escaped(f"The journal of {subject}, as {user}:"),
            f"  {link}",
            f"One browser can use the link, within a minute; the page works {until}.",
        ]
        if sys.stdin is not None and sys.stdin.isatty():
            lines.append("Enter makes a new link.")
        return "\n".join(lines)

    async def _find_view(self, session: StreamingSession) -> View:
        """Find the view in a thread: credential plugins and the server may be slow, and may need this event loop."""
        from rewound.cli.open.view import find_view

        options = self._options

        def find() -> View:
            with session:
                return find_view(session, options.kind, options.name, options.namespace, options.at)

        try:
            return await trio.to_thread.run_sync(find, abandon_on_cancel=True)
        except ClientError as error:
            folder = (options.kubeconfig or DATA_FOLDER_FILE).parent
            configured = str(folder / DATA_FOLDER_FILE.name) in session.target.configured_in
            if isinstance(error, StatusError) or not configured or not (folder / "journal").is_dir():
                raise
            stopped = f"If it has stopped: rewound open --data-dir {shlex.quote(str(folder))}"
            raise ClientError(f"{error} {stopped}") from error


def _run(opening: _Opening) -> int:
    from rewound.cli.command import only_error
    from rewound.gateway.connections.listen import CannotListen

    try:
        trio.run(opening.run)
    except BaseExceptionGroup as group:
        error = only_error(group)
        if isinstance(error, CannotListen):
            raise UsageError(f"--port: {error}; give another, or leave it out") from group
        raise error from None
    return 0


async def _start_browser(link: str) -> None:
    if not await start_browser(link):
        _report("no browser could be started: open the link yourself, or set BROWSER to one")


async def _renew_on_enter(new_link: Callable[[], str]) -> None:
    while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        print(f"  {new_link()}", flush=True)


def _report(text: str) -> None:
    """Print to the terminal, without the control characters that servers and plugins may send."""
    print(f"rewound: {escaped(text)}", file=sys.stderr, flush=True)
