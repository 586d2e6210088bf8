"""Runs `rewound replay` as a process: opens the source, serves it, and takes commands from the terminal.

With --writable it serves a copy, and prints at the end how the copy differs from what happened (`serve_copy`).
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import trio

from rewound.actors.certificates.issuing_process import begin_early
from rewound.actors.certificates.pki import write_atomically
from rewound.actors.errors import BadRequest, RequestError
from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options
from rewound.cli.command import exit_on_sigterm
from rewound.cli.journal.printing import masked_object
from rewound.cli.replay.flags import DIFFERENT, asks_to_play, plays
from rewound.gateway.pipeline.route import PAGE_PATH
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.server_config import host_and_port
from rewound.gateway.settings.settings import Addresses, ControllerSettings, Settings
from rewound.journal.errors import JournalError
from rewound.journal.recording import Recording
from rewound.recording.progress import INTERVAL, Progress
from rewound.recording.query.entries import masked_pair
from rewound.recording.query.moments import Moment as Given
from rewound.recording.query.moments import exact, parse_moment, rfc3339
from rewound.recording.replay.comparison import Comparison, Ignored, report
from rewound.recording.replay.control import ReplayControl, extent_of, moment_at, parse_speed, written_moment
from rewound.recording.replay.player import FULL_SPEED, Moment, Player
from rewound.recording.replay.replay import Plan, replay_settings, run_replay
from rewound.recording.replay.source import open_source
from rewound.recording.replay.writable import Progress as CopyProgress
from rewound.recording.replay.writable import WritablePlan, fork_settings, make_copy, run_writable
from rewound.server.extensions import Extensions
from rewound.server.failures import explain
from rewound.testing.killed import killed_by

WATCH_SECONDS = 30.0  # recorded writes begin then, also if the command has not begun to watch
END_SECONDS = 10.0  # for a command that is asked to end; then it is killed


def serve(options: Options) -> int:
    with (
        exit_on_sigterm(),  # while the server handles no signals: before its start and after its stop
        tempfile.TemporaryDirectory(prefix="rewound-replay-") as folder,
        begin_early(wanted=bool(options.secure_port)),
        ExitStack() as opened,
    ):
        with Progress("import") as progress:
            recording = opened.enter_context(open_source(options.source, Path(folder), progress))
        if options.writable:
            return serve_copy(options, recording, Path(folder))
        settings = replay_settings(recording, Path(folder) / "data", Settings, **given_settings(options))
        return _serve(options, settings, recording)


def _serve(options: Options, settings: Settings, recording: Recording) -> int:
    plan = _plan(options, recording)
    as_json = options.output == "json"
    held: bool | None = None

    async def run() -> None:
        nonlocal held
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal, stop)

            def ready(addresses: Addresses, control: ReplayControl, player: Player) -> None:
                text = banner(options, settings, addresses, control)
                print(text, file=sys.stderr if as_json else sys.stdout, flush=True)
                nursery.start_soon(_report, player, stop, options.exit, None if as_json else print)
                if sys.stdin.isatty():
                    nursery.start_soon(Console(control, recording, stop).run)
                served.append((control, player))

            served: list[tuple[ReplayControl, Player]] = []
            await run_replay(settings, recording, plan, ready, stop, Extensions(replayed=options.source))
            nursery.cancel_scope.cancel()
            for control, player in served:
                held = player.state().held
                if as_json:
                    print(json.dumps({**control.state(), "held": held}, indent=2), flush=True)

    code = run_process(run, settings)
    if code == 0 and options.exit_code and not held:
        return DIFFERENT
    return code


def _plan(options: Options, recording: Recording) -> Plan:
    playing = plays(options)
    span = span_of(recording, options)
    start = span.start
    if start is None and asks_to_play(options):
        with recording.read_all() as view:
            start = Moment(view.floor, 0)
    to = None if span.to is None else span.to.version
    return Plan(start, to, span.speed, options.stop_when, playing)


def banner(options: Options, settings: Settings, addresses: Addresses, control: ReplayControl) -> str:
    state = control.state()
    lines = [
        f"Replaying {options.source}, from version {state['start']['version']} to {state['end']['version']}."
    ]
    if addresses.secure is not None:
        kubeconfig = written_kubeconfig(options.kubeconfig, settings)
        lines.append(f"  secure      https://{host_and_port(*addresses.secure)}")
        lines.append(f"  kubeconfig  {kubeconfig}")
    if addresses.insecure is not None:
        lines.append(f"  plain       http://{host_and_port(*addresses.insecure)}")
    lines.append(f"  page        {page_url(addresses)}")
    lines.append(f"  shows       {shown(state)}")
    if addresses.secure is not None:
        lines += ["", f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}", f"  {_OPEN}"]
    commands = "play, pause, step, back, goto, status or quit" if sys.stdin.isatty() else "Ctrl-C ends it"
    return "\n".join([*lines, "", f"Read-only. {commands}.", ""])


_OPEN = "rewound open        # the page, in a browser, signed in"


def page_url(addresses: Addresses) -> str:
    scheme, listening = ("https", addresses.secure) if addresses.secure else ("http", addresses.insecure)
    assert listening is not None, "a replay listens on a port"
    return f"{scheme}://{host_and_port(*listening)}{PAGE_PATH}"


def shown(state: dict[str, Any]) -> str:
    time = state["time"] or "before the first event"
    playing = f", playing at {state['speed']}" if state["playing"] else ""
    return f"version {state['version']} of {time}{playing}"


async def _report(player: Player, stop: trio.Event, ends: bool, output: Callable[[str], None] | None) -> None:
    """Print when and why playing stops, and at top speed also how far it is."""
    while True:
        await player.wait_playing()
        await _wait_stopped(player)
        state = player.state()
        if output is not None:
            output(f"stopped at version {state.now.version} ({exact(state.now.time)}): {state.stopped}")
            sys.stdout.flush()
        if ends:
            stop.set()
            return


async def _wait_stopped(player: Player) -> None:
    if player.speed != FULL_SPEED:
        await player.wait_stopped()
        return
    state = player.state()
    begun, total = state.now.version, state.end.version - state.now.version
    with Progress("replay", total) as progress:
        while player.playing:
            with trio.move_on_after(INTERVAL):
                await player.wait_stopped()
            progress(player.state().now.version - begun)


def serve_copy(options: Options, recording: Recording, folder: Path) -> int:
    """Serve a writable copy in the temporary `folder`."""
    data_dir = options.keep or folder / "copy"
    if (data_dir / "journal").exists():
        raise SettingsError("--keep", f"{data_dir} already has a journal; name a new folder")
    plan = _plan_copy(options, recording)
    if options.command:
        plan = replace(plan, paused=True)  # until the command watches
    settings = fork_settings(recording, data_dir, Settings, **_given(options))
    with Progress("copy", plan.at.version) as bar:
        make_copy(recording, plan, data_dir, bar)
    found: list[Comparison] = []
    state = CopyProgress(plan)

    async def run() -> None:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal, stop)

            def ready(addresses: Addresses) -> None:
                print(_banner(options, settings, addresses, plan), file=sys.stderr, flush=True)
                if options.command:
                    kubeconfig = settings.kubeconfig if addresses.secure is not None else None
                    beside = CommandBeside(options.command, kubeconfig, state, stop)
                    nursery.start_soon(beside.run, not options.paused)

            extensions = Extensions(replayed=options.source)
            found.append(await run_writable(settings, recording, state, ready, stop, extensions))
            nursery.cancel_scope.cancel()

    code = run_process(run, settings)
    for comparison in found:
        if not options.show_secrets:
            _mask(comparison)
        _print(options, comparison)
        failures = comparison.failures if options.exit_code else state.failures
        for failure in failures:
            print(f"rewound: {escaped(failure)}", file=sys.stderr, flush=True)
        if failures and code == 0:
            code = DIFFERENT if options.exit_code else 1
    return code


class CommandBeside:
    """The command that runs beside a copy, usually the controller under test."""

    def __init__(
        self, command: list[str], kubeconfig: Path | None, state: CopyProgress, stop: trio.Event
    ) -> None:
        self._command, self._kubeconfig, self._state, self._stop = command, kubeconfig, state, stop
        self._ending = False

    async def run(self, begin: bool) -> None:
        """Run the command until it or the replay ends; call `begin`, which starts playing, once it watches."""
        environment = dict(os.environ)
        if self._kubeconfig is not None:
            environment["KUBECONFIG"] = str(self._kubeconfig)
        try:
            process = await trio.lowlevel.open_process(self._command, env=environment, stdout=2)
        except OSError as error:
            await self._fail(f"{self._command[0]}: {error.strerror}")
            return
        self._state.before_stop = partial(self._end, process)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass_on, process)
                if begin:
                    nursery.start_soon(self._begin)
                code = await process.wait()
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()
        if self._ending or self._stop.is_set():
            return
        if code:
            how = killed_by(-code) if code < 0 else f"ended with exit code {code}"
            await self._fail(f"{self._command[0]} {'was ' if code < 0 else ''}{how}")
        elif not self._state.plan.play:
            await self._state.finish(self._stop)  # the command is done
        else:
            self._state.begun.set()

    async def _pass_on(self, process: trio.Process) -> None:
        """Forward a signal that stopped the server to the command."""
        await self._stop.wait()
        process.terminate()

    async def _begin(self) -> None:
        with trio.move_on_after(WATCH_SECONDS):
            await self._state.watched.wait()
        self._state.begun.set()

    async def _end(self, process: trio.Process) -> None:
        """Stop the command before the server, so that it does not report that the server is gone."""
        self._ending = True
        if process.returncode is None:
            process.terminate()
        with trio.move_on_after(END_SECONDS):
            await process.wait()

    async def _fail(self, failure: str) -> None:
        self._state.failures.append(failure)
        self._stop.set()


def _given(options: Options) -> dict[str, Any]:
    given = given_settings(options)
    if options.controllers:
        names = tuple("" if one == "none" else one for one in options.controllers)
        given["controllers"] = ControllerSettings(controllers=names)
    return given


def _plan_copy(options: Options, recording: Recording) -> WritablePlan:
    play = plays(options)
    span = span_of(recording, options)
    at = span.start
    if at is None:
        at = Moment(recording.end, 0)
        if play:
            with recording.read_all() as view:
                at = Moment(view.floor, 0)
    end = recording.end if span.to is None else span.to.version
    return WritablePlan(
        at,
        end,
        play,
        span.speed,
        options.stop_when,
        tuple(options.without),
        options.paused,
        options.exit,
        options.settle,
        options.timeout,
        Ignored(options.ignore, options.ignore_field),
    )


def _banner(options: Options, settings: Settings, addresses: Addresses, plan: WritablePlan) -> str:
    lines = [f"Replaying {options.source} in a copy that begins at version {plan.at.version}."]
    if addresses.secure is not None:
        kubeconfig = written_kubeconfig(options.kubeconfig, settings)
        lines.append(f"  secure      https://{host_and_port(*addresses.secure)}")
        lines.append(f"  kubeconfig  {kubeconfig}")
    if addresses.insecure is not None:
        lines.append(f"  plain       http://{host_and_port(*addresses.insecure)}")
    if plan.play:
        without = f", without {', '.join(plan.without)}" if plan.without else ""
        lines.append(f"  applies     what others wrote up to version {plan.to}{without}")
    lines.append(f"  page        {page_url(addresses)}")
    if addresses.secure is not None:
        lines += ["", f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}", f"  {_OPEN}"]
    if options.paused:
        begin = 'kubectl create --raw /debug/rewound/replay -f - <<< \'{"action": "play"}\''
        lines += ["", f"Paused. To begin: {begin}"]
    return "\n".join([*lines, "", "Ctrl-C ends it and prints how it differs from what happened.", ""])


def _mask(comparison: Comparison) -> None:
    """Mask the values of Secrets so that different values stay different."""
    for one in comparison.objects:
        if one.type_name != "secrets":
            continue
        if one.before is not None and one.after is not None:
            one.before, one.after = masked_pair(one.before, one.after)
        else:
            one.before, one.after = _masked_or_none(one.before), _masked_or_none(one.after)


def _masked_or_none(document: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if document is None else masked_object(document)


def _print(options: Options, comparison: Comparison) -> None:
    if options.output == "json":
        print(json.dumps(comparison.document(), indent=2), flush=True)
        return
    print("\n".join(report(comparison)), flush=True)
    if options.keep is not None:
        print(
            f"saved in {options.keep}: rewound serve --data-dir {shlex.quote(str(options.keep))}", flush=True
        )


def given_settings(options: Options) -> dict[str, Any]:
    names = (
        "bind_address",
        "secure_port",
        "insecure_port",
        "token_auth_file",
        "profile",
        "kubernetes_version",
    )
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    return given | {"rule": ",".join(options.rule or ())}


@dataclass(frozen=True, slots=True)
class Span:
    """What --at or --since, --until and --speed mean for a recording; None where they are not given."""

    start: Moment | None
    to: Moment | None
    speed: float


def span_of(recording: Recording, options: Options) -> Span:
    """Resolve the flags for a recording. Raises SettingsError if it does not have the moments."""
    first = "--at" if options.at else "--since"
    start = _resolve(recording, options.at or options.start, first)
    to = _resolve(recording, options.to, "--until")
    _check_end(recording, start, first)
    if start is not None and to is not None and to.version < start.version:
        raise SettingsError("--until", f"version {to.version} is before {first}, version {start.version}")
    try:
        speed = parse_speed(options.speed) if options.speed else 1.0
    except BadRequest as error:
        raise SettingsError("--speed", str(error).removeprefix("speed: ")) from error
    return Span(start, to, speed)


def _resolve(recording: Recording, given: Given | None, flag: str) -> Moment | None:
    """The offset of a moment; None for the end. Raises SettingsError if it is not in the journal."""
    if given is None or given == Given():
        return None
    if given.time is not None:
        try:
            return moment_at(recording, given.time)
        except BadRequest as error:
            raise SettingsError(flag, str(error)) from error
    assert given.offset is not None
    with recording.read_all() as view:
        first = view.floor
    if not first <= given.offset <= recording.end:
        raise SettingsError(
            flag, f"{given.offset} is not in the journal, which has {first} to {recording.end}"
        )
    return Moment(given.offset, 0)


def _check_end(recording: Recording, start: Moment | None, flag: str) -> None:
    """Warn of a moment after the last event. Raises SettingsError if it is where playing would begin."""
    _, last = extent_of(recording)
    if start is None or start.time <= last.time:
        return
    text = f"{rfc3339(start.time)} is after the last event, {written_moment(last)}"
    if flag == "--since":
        raise SettingsError(flag, f"{text}: there is nothing to play")
    print(f"rewound: {flag}: {text}, which it shows", file=sys.stderr, flush=True)


def written_kubeconfig(wanted: Path | None, settings: Settings) -> Path:
    """The server's kubeconfig file, or a copy at `--kubeconfig` that only its owner can read."""
    if wanted is None:
        return settings.kubeconfig
    write_atomically(wanted, settings.kubeconfig.read_bytes(), 0o600)
    return wanted


HELP = """\
play [SPEED]   go on in the recorded intervals, or at 10x, 0.5x, max
pause          stop there
step [N]       forward by one event, or N; Enter does the same
back [N]       back by one event, or N; open watches end
goto MOMENT    a version (1042), a time (2026-11-15T04:07:33Z, 12:03) or how long ago (10m)
status         where it is
quit           end"""


class Console:
    """Runs the commands that a user types during a replay, one per line."""

    def __init__(self, control: ReplayControl, recording: Recording, stop: trio.Event) -> None:
        self._control, self._recording, self._stop = control, recording, stop

    async def run(self) -> None:
        while not self._stop.is_set():
            line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
            if not line:
                return  # the terminal is gone, but the server goes on
            print(await self.perform(line), flush=True)

    async def perform(self, line: str) -> str:
        """Run a line as a command; returns what to print."""
        command, _, argument = line.strip().partition(" ")
        command, argument = command or "step", argument.strip()
        if command in ("quit", "exit", "q"):
            self._stop.set()
            return "ends"
        if command in ("help", "?"):
            return HELP
        try:
            if command != "status":
                await self._control.perform(_wanted(command, argument))
        except (RequestError, JournalError, ValueError) as error:
            return str(error)
        return describe(self._control.state())


def _wanted(command: str, argument: str) -> dict[str, Any]:
    """The document that a program would send for a line. Raises ValueError if the line is not a command."""
    wanted: dict[str, Any] = {"action": command}
    if command == "goto":
        moment = parse_moment(argument)
        if moment.time is None and moment.offset is None:
            raise ValueError("goto MOMENT: which?")
        wanted["at"] = str(moment.offset) if moment.time is None else rfc3339(moment.time)
    elif argument and command == "play":
        wanted["speed"] = argument
    elif argument:
        wanted["count"] = int(argument) if argument.isdecimal() else argument
    return wanted


def describe(state: dict[str, Any]) -> str:
    doing = f"playing at {state['speed']}" if state["playing"] else state["stopped"] or "paused"
    return f"version {state['version']} of {state['end']['version']}, {state['time'] or 'empty'}: {doing}"


def run_process(main: Callable[[], Any], settings: Settings) -> int:
    try:
        trio.run(main)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        single = _single(error)
        if isinstance(single, SettingsError | JournalError):
            raise single from None
        explanation = explain(error, settings)
        if explanation is None:
            raise single from None
        raise SettingsError(*explanation.partition(": ")[::2]) from None
    return 0


def _single(error: BaseException) -> BaseException:
    """Unwrap an error from groups of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def stop_on_signal(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            stop.set()
