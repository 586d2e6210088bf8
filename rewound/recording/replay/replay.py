"""Runs a read-only replay: the recording, its server, the player and its controls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace

from rewound.actors.cel.program import Program
from rewound.actors.names import NAMES
from rewound.actors.versions.version import stored_version
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.gateway.store import Store
from rewound.journal.recording import Recording
from rewound.journal.records import Event
from rewound.recording.replay.control import ReplayControl
from rewound.recording.replay.player import Moment, Player, ReplayClock
from rewound.recording.replay.replay_server import ReplayServer
from rewound.recording.replay.until import TypeNames, Until, check_fields, compile_expression
from rewound.server.extensions import NO_EXTENSIONS, Extensions

FOR_EVER = 100 * 365 * 86400.0  # seconds
# Reviews pass admission, and webhooks of the recorded cluster must not be called, whether they exist or not.
WEBHOOKS = "MutatingAdmissionWebhook,ValidatingAdmissionWebhook"

Ready = Callable[[Addresses, ReplayControl, Player], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a replay begins, and how far it plays."""

    at: Moment | None = None  # None: the end
    to: int | None = None  # a version; None: the end
    speed: float = 1.0
    until: str = ""  # an expression
    play: bool = False  # from the start


def replay_settings(recording: Recording, data_dir: Path, settings: type[Settings], **given: Any) -> Settings:
    """Settings of a server that shows everything to every authenticated user: recorded rights do not apply."""
    return settings(
        data_dir=data_dir,
        dialect=recording.dialect,
        kubernetes_version=given.pop("kubernetes_version", stored_version(recording.kubernetes)),
        authorization_mode="AlwaysAllow",
        anonymous_auth=False,
        disable_admission_plugins=WEBHOOKS,
        enable_priority_and_fairness=False,
        watch_history=FOR_EVER,
        journal_retention=None,
        **given,
    )


async def run_replay(
    settings: Settings,
    recording: Recording,
    plan: Plan,
    ready: Ready,
    stop: trio.Event,
    extensions: Extensions = NO_EXTENSIONS,
) -> None:
    """Serve a recording until `stop` is set. Raises BadExpression if `until` is invalid."""
    program = compile_until(plan.until, recording)
    clock = ReplayClock()
    control: ReplayControl
    server = ReplayServer(
        settings,
        recording,
        clock,
        replace(extensions, add_controls=lambda add: control.add_to(add)),
    )

    until = None
    if program is not None:
        until = Until(
            program,
            lambda number: described(server.instance.store, number),
            lambda event: before(recording, event),
        )
    player = Player(recording, server, clock, to=plan.to, speed=plan.speed, until=until)
    control = ReplayControl(player, recording)
    _start_at(recording, clock, plan.at or player.state().end)
    async with trio.open_nursery() as nursery:

        def serving(addresses: Addresses) -> None:
            nursery.start_soon(player.run)
            if plan.play:
                player.play()
            ready(addresses, control, player)

        await server.run(serving, stop)
        nursery.cancel_scope.cancel()


def _start_at(recording: Recording, clock: ReplayClock, moment: Moment) -> None:
    recording.position = moment.version
    clock.time = moment.time or recording.time


def compile_until(text: str, recording: Recording) -> Program | None:
    """Compile an expression; None without one. Raises BadExpression, also if it can never hold."""
    if not text:
        return None
    program = compile_expression(text, NAMES[recording.dialect])
    check_fields(text, recording)
    return program


def described(store: Store, type_id: int) -> TypeNames:
    """The names of a type, as the server serves it now."""
    for name, number in store.journal.types().items():
        if number == type_id:
            found = store.registry.current.stored_type(name)
            if found is not None and found.served:
                one = found.served[0]
                return TypeNames(one.plural, one.group, one.kind, one.api_version)
            resource, _, group = name.partition(".")
            return TypeNames(resource, group)
    return TypeNames("", "")


def before(recording: Recording, event: Event) -> bytes | None:
    with recording.read_all() as view:
        found = view.event(event.previous)
    return None if found is None else found.body
