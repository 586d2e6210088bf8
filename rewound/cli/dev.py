"""`rewound dev -- COMMAND`: run a command with a server of its own, and print the story when the command fails."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewound.gateway.pipeline.route import PAGE_PATH
from rewound.testing.killed import exit_code

if TYPE_CHECKING:
    from rewound.testing.fixture.rewound import Rewound

_EXAMPLES = """\
The command finds the server in KUBECONFIG and REWOUND_URL. Its exit code is that of rewound dev; when it is not 0, the
story of all objects follows on standard error, and the journal is saved as a file for `rewound replay`.

examples:
  rewound dev -- kubectl get namespaces
  rewound dev --seed 7 --faults faults.yaml -- go test ./controllers/...
  rewound dev --dialect cluster --keep always -- npm test
  rewound dev --kubernetes-version 1.33 -- make test
  rewound dev --nodes 3 -- sh              a shell with a cluster: pods run on simulated nodes
  rewound dev -- sh                        a shell with a server; `rewound open` in it shows the page
"""


def dev(arguments: Sequence[str]) -> int:
    own, command = _split(list(arguments))
    options, unknown = _parser().parse_known_args(own)
    if unknown or not command:
        wrong = f"{unknown[0]}: is not a flag of it; " if unknown else ""
        print(
            f"rewound dev: {wrong}give flags, then -- and a command, as in: rewound dev -- make test",
            file=sys.stderr,
        )
        return 2
    if options.seed is not None and options.faults is None:
        print(
            "rewound dev: --seed: has no effect without --faults; add it or leave this out", file=sys.stderr
        )
        return 2
    from rewound.testing.fixture.running import flags_of_nodes, flags_of_version

    options.flags[:0] = (*flags_of_version(options.kubernetes_version), *flags_of_nodes(options.nodes))
    try:
        faults = _faults(options.faults, options.seed)
    except ValueError as error:
        print(f"rewound dev: --faults: {error}", file=sys.stderr)
        return 2
    return _run(options, command, faults)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rewound dev",
        usage="rewound dev [flags] -- COMMAND [ARGUMENT...]",
        description="Run a command with a server of its own, which ends with it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--dialect", default="kubernetes", choices=("kubernetes", "cluster"), help="names in the API"
    )
    parser.add_argument(
        "--kubernetes-version", metavar="VERSION", help="the Kubernetes that the server is, such as 1.33"
    )
    parser.add_argument(
        "--flag",
        action="append",
        default=[],
        dest="flags",
        metavar="FLAG",
        help="a flag of `rewound serve`, as in --flag=--event-ttl=5m; may be given more than once",
    )
    parser.add_argument(
        "--nodes",
        type=int,
        metavar="N",
        help="simulate N nodes and run all controllers: pods run, Deployments roll out, claims get volumes of the "
        "StorageClass standard (docs/nodes.md)",
    )
    parser.add_argument("--faults", type=Path, metavar="FILE", help="inject these faults (docs/faults.md)")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="the seed of the faults, instead of that in the file"
    )
    parser.add_argument(
        "--keep",
        default="failed",
        choices=("always", "failed", "never"),
        help="when to keep the journal as a file in the current folder (default failed)",
    )
    return parser


def _faults(path: Path | None, seed: int | None) -> dict[str, Any] | None:
    """Read a faults file, JSON or YAML. Raises ValueError that says what is wrong in it."""
    if path is None:
        return None
    from rewound.testing.faults.parsing import faults_of, read_faults

    read = read_faults(path)
    document = {"seed": read.seed if seed is None else seed, "rules": list(read.documents)}
    faults_of(document)
    return document


def _run(options: argparse.Namespace, command: list[str], faults: dict[str, Any] | None) -> int:
    from rewound.testing.fixture.failures import NotStarted
    from rewound.testing.fixture.processes import ProcessServers
    from rewound.testing.fixture.rewound import Rewound, ended
    from rewound.testing.fixture.templates import scratch_folder

    try:
        with closing(ProcessServers()) as servers:
            running = servers.start(scratch_folder(), options.dialect, options.flags)
            with ended(Rewound(running, options.dialect, options.flags)) as server:
                server.begin()
                if faults is not None:
                    server.faults(*faults["rules"], seed=faults["seed"])
                return _run_with(server, command, options.keep)
    except NotStarted as error:
        print(f"rewound dev: {error}", file=sys.stderr)
        return 2 if error.wrong_flag else 1
    except KeyboardInterrupt:
        return 130


def _run_with(server: Rewound, command: list[str], keep: str) -> int:
    if sys.stdin.isatty() and sys.stderr.isatty():
        page = f"{server.url}{PAGE_PATH}"
        print(
            f"rewound dev: {page} shows what happens; `rewound open` in {command[0]} signs you in",
            file=sys.stderr,
        )
    try:
        code = run_command(command, {**os.environ, **server.environment})
    except OSError as error:
        print(f"rewound dev: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126
    keeps = keep == "always" or (keep == "failed" and code != 0)
    if keeps or code:
        _report(server, command, code, _file() if keeps else None)
    elif (how := server.how_ended()) is not None:
        print(f"rewound dev: the server has ended: {how}", file=sys.stderr)
    return code


def run_command(command: list[str], environment: dict[str, str]) -> int:
    """Run a command; returns its exit code as shells count. Raises OSError if it cannot be started."""
    with _ForwardedSignals() as signals:
        child = subprocess.Popen(command, env=environment)
        signals.send_to(child)
        code = _wait(child)
    return exit_code(code)


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Wait until the child ends, while signal handlers run.

    A signal that arrives right before the main thread blocks in a system call would not interrupt that call, and its
    handler would not run. So the main thread reads a pipe, to which each signal writes.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    ended = threading.Event()

    def wait() -> None:
        child.wait()
        ended.set()
        with suppress(BlockingIOError):  # the pipe is full, and wakes the reader anyway
            os.write(writing, b"\0")

    waiting = threading.Thread(target=wait, daemon=True)
    try:
        waiting.start()
        while not ended.is_set():
            os.read(reading, 512)
        waiting.join()
    finally:
        signal.set_wakeup_fd(before)
        if not waiting.is_alive():  # otherwise it may still write
            os.close(reading)
            os.close(writing)
    return child.returncode


class _ForwardedSignals:
    """Forwards signals to the command, from before it starts until it ends. Ignored signals stay ignored.

    Ctrl-C reaches the command through the terminal, so it is not sent a second time.
    """

    _NUMBERS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []  # arrived before there was a command
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _ForwardedSignals:
        self._handle(signal.SIGINT, lambda *_: None)
        for number in self._NUMBERS:
            self._handle(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def send_to(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        while self._early:
            child.send_signal(self._early.pop(0))

    def _handle(self, number: int, handler: Callable[[int, object], None]) -> None:
        if signal.getsignal(number) is not signal.SIG_IGN:
            self._before[number] = signal.signal(number, handler)

    def _received(self, number: int, _: object) -> None:
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)


def _file() -> Path:
    """A file in the current folder that does not exist yet."""
    folder = Path.cwd()
    numbers = iter(range(1, 10_000))
    return next(path for number in numbers if not (path := folder / f"rewound-dev-{number}.journal").exists())


def _report(server: Rewound, command: list[str], code: int, file: Path | None) -> None:
    found = server.report(export=file)
    if code:
        print(f"\nrewound dev: {shlex.join(command)} ended with {code}; what happened:\n", file=sys.stderr)
        print("\n".join(found["story"]), file=sys.stderr)
        if found["log"].strip():
            print(f"\nthe server's log:\n{found['log']}", file=sys.stderr)
    if found["file"]:
        from rewound.testing.fixture.reporting import saved_lines

        print("\n".join(["", *saved_lines(found["file"])]), file=sys.stderr)
