"""Runs `rewound replay --writable` as a process, and prints at the end how the copy differs from what happened."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import trio

from gateway.cli.access.flags import Options
from gateway.cli.journal.printing.progress import Progress as Bar
from gateway.cli.journal.query.secrets import masked_pair
from gateway.cli.replay.flags import plays
from gateway.cli.replay.process import run_process, stop_on_signal
from gateway.cli.replay.resolving import given_settings, span_of, written_kubeconfig
from gateway.cli.rewind.printing import masked_object
from gateway.replay.comparison import Comparison
from gateway.replay.player import Moment
from gateway.replay.report import report
from gateway.replay.writable import Progress, WritablePlan, fork_settings, make_copy, run_writable
from gateway.settings.checks import SettingsError
from gateway.settings.controllers import ControllerSettings
from gateway.settings.server import host_and_port
from gateway.settings.settings import Addresses, Settings
from journal.recording import Recording


def serve_copy(options: Options, recording: Recording, folder: Path) -> int:
    """`folder` is temporary."""
    data_dir = options.keep or folder / "copy"
    if (data_dir / "journal").exists():
        raise SettingsError("--keep", f"{data_dir} already has a journal; name a new folder")
    plan = _plan(options, recording)
    settings = fork_settings(recording, data_dir, Settings, **_given(options))
    with Bar("copy", plan.at.version) as bar:
        make_copy(recording, plan, data_dir, bar)
    found: list[Comparison] = []
    state = Progress(plan)

    async def run() -> None:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal, stop)

            def ready(addresses: Addresses) -> None:
                print(_banner(options, settings, addresses, plan), file=sys.stderr, flush=True)

            found.append(await run_writable(settings, recording, state, ready, stop))
            nursery.cancel_scope.cancel()

    code = run_process(run, settings)
    for comparison in found:
        if not options.show_secrets:
            _mask(comparison)
        _print(options, comparison)
    return code


def _given(options: Options) -> dict[str, Any]:
    given = given_settings(options)
    if options.controllers:
        names = tuple("" if one == "none" else one for one in options.controllers)
        given["controllers"] = ControllerSettings(controllers=names)
    return given


def _plan(options: Options, recording: Recording) -> WritablePlan:
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
        at, end, play, span.speed, options.until, tuple(options.without), options.paused, options.exit
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
    if addresses.secure is not None:
        lines += ["", f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}"]
    if plan.paused:
        begin = 'kubectl create --raw /debug/rewound/replay -f - <<< \'{"action": "play"}\''
        lines += ["", f"Paused. To begin: {begin}"]
    return "\n".join([*lines, "", "Ctrl-C ends it and prints how it differs from what happened.", ""])


def _mask(comparison: Comparison) -> None:
    """Replace the values of Secrets, so that it can still be seen where they differ."""
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
            f"kept in {options.keep}: rewound serve --data-dir {shlex.quote(str(options.keep))}", flush=True
        )
