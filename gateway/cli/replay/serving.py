"""Runs `rewound replay` as a process: opens the source, serves it, and takes commands from the terminal."""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import trio

from actors.certificates.issuing_process import begin_early
from gateway.cli.access.flags import Options
from gateway.cli.journal.printing.progress import Progress
from gateway.cli.journal.query.times import exact
from gateway.cli.journal.sigterm import exit_on_sigterm
from gateway.cli.replay.console import Console
from gateway.cli.replay.flags import plays
from gateway.cli.replay.process import run_process, stop_on_signal
from gateway.cli.replay.resolving import given_settings, span_of, written_kubeconfig
from gateway.cli.replay.writing import serve_copy
from gateway.replay.control import ReplayControl
from gateway.replay.player import Moment, Player
from gateway.replay.replay import Plan, replay_settings, run_replay
from gateway.replay.source import open_source
from gateway.settings.server import host_and_port
from gateway.settings.settings import Addresses, Settings
from journal.recording import Recording


def serve(options: Options) -> int:
    with (
        exit_on_sigterm(),  # while the server handles no signals: before its start and after its stop
        tempfile.TemporaryDirectory(prefix="rewound-replay-") as folder,
        begin_early(wanted=bool(options.secure_port)),
        Progress("import", 0) as progress,
    ):

        def report(done: int, total: int) -> None:
            progress.total = total
            progress(done)

        with open_source(options.source, Path(folder), report) as recording:
            if options.writable:
                return serve_copy(options, recording, Path(folder))
            settings = replay_settings(recording, Path(folder) / "data", Settings, **given_settings(options))
            return _serve(options, settings, recording)


def _serve(options: Options, settings: Settings, recording: Recording) -> int:
    plan = _plan(options, recording)

    async def run() -> None:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal, stop)

            def ready(addresses: Addresses, control: ReplayControl, player: Player) -> None:
                print(banner(options, settings, addresses, control), flush=True)
                nursery.start_soon(_report, player, stop, options.exit)
                if sys.stdin.isatty():
                    nursery.start_soon(Console(control, recording, stop).run)

            await run_replay(settings, recording, plan, ready, stop)
            nursery.cancel_scope.cancel()

    return run_process(run, settings)


def _plan(options: Options, recording: Recording) -> Plan:
    playing = plays(options)
    span = span_of(recording, options)
    start = span.start
    if start is None and playing:
        with recording.read_all() as view:
            start = Moment(view.floor, 0)
    to = None if span.to is None else span.to.version
    return Plan(start, to, span.speed, options.until, playing)


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
    lines.append(f"  shows       {shown(state)}")
    if addresses.secure is not None:
        lines += ["", f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}"]
    commands = "play, pause, step, back, goto, status or quit" if sys.stdin.isatty() else "Ctrl-C ends it"
    return "\n".join([*lines, "", f"Read-only. {commands}.", ""])


def shown(state: dict[str, Any]) -> str:
    time = state["time"] or "before the first event"
    playing = f", playing at {state['speed']}" if state["playing"] else ""
    return f"version {state['version']} of {time}{playing}"


async def _report(player: Player, stop: trio.Event, ends: bool) -> None:
    """Print when and why it stops playing."""
    while True:
        await player.wait_playing()
        await player.wait_stopped()
        state = player.state()
        print(
            f"stopped at version {state.now.version} ({exact(state.now.time)}): {state.stopped}", flush=True
        )
        if ends:
            stop.set()
            return
