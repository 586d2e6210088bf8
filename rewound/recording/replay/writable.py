"""A writable replay: an ordinary server on a copy of the journal up to some moment.

Controllers, clients and the server write to the copy, and the recorded writes of others may be applied to it
(`recorded_writes`). At the end, `Comparison` says how it differs from the recording.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import trio

from rewound.actors.access.authorize import Attributes, Decision
from rewound.actors.errors import BadRequest
from rewound.actors.versions.version import stored_version
from rewound.gateway.message import Response
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.gateway.store import Store
from rewound.journal.log import Journal
from rewound.journal.recording import Recording
from rewound.journal.records import Event
from rewound.journal.transfer import ForkProgress as CopyProgress
from rewound.journal.transfer import fork
from rewound.recording.replay.comparison import NOTHING_IGNORED, Comparison, Ignored, compare
from rewound.recording.replay.player import FULL_SPEED, ForkClock, Moment
from rewound.recording.replay.recorded_writes import Applied, RecordedWrites, Writers, is_of_server
from rewound.recording.replay.replay import FOR_EVER, WEBHOOKS, before, compile_until, described
from rewound.recording.replay.replay_server import NotRunningAuthorizer
from rewound.recording.replay.until import Until
from rewound.server.controls import json_body
from rewound.server.extensions import NO_EXTENSIONS, Extensions
from rewound.server.run import run

Ready = Callable[[Addresses], None]


@dataclass(frozen=True, slots=True)
class WritablePlan:
    at: Moment  # where the copy begins
    to: int  # the recorded version with which it is compared, and to which others' writes are applied
    play: bool = False  # apply recorded writes of others
    speed: float = 1.0
    until: str = ""
    without: tuple[str, ...] = ()
    paused: bool = False  # begin to play when a client says so
    ends: bool = False  # stop when the recorded writes are applied
    settle: float | None = None  # ends when no client has written for so many seconds
    timeout: float | None = None  # ends after so many seconds
    ignored: Ignored = NOTHING_IGNORED


def fork_settings(recording: Recording, data_dir: Path, settings: type[Settings], **given: Any) -> Settings:
    return settings(
        data_dir=data_dir,
        dialect=recording.dialect,
        kubernetes_version=given.pop("kubernetes_version", stored_version(recording.kubernetes)),
        authorization_mode="AlwaysAllow",
        anonymous_auth=False,
        disable_admission_plugins=WEBHOOKS,
        watch_history=FOR_EVER,
        journal_retention=None,
        **given,
    )


def make_copy(
    recording: Recording, plan: WritablePlan, data_dir: Path, progress: CopyProgress | None = None
) -> None:
    """Create the journal of the copy. Raises JournalExists if the folder has one."""
    with recording.read_all() as view:
        fork(view, data_dir / "journal", plan.at.version, progress)
    recording.position = plan.at.version


class Progress:
    """The progress of a writable replay, and `/debug/rewound/replay`, where clients read it and start playing."""

    def __init__(self, plan: WritablePlan) -> None:
        self.plan = plan
        self.applied = Applied(reached=plan.at.version)
        self.begun, self.played = trio.Event(), trio.Event()
        self.watched = trio.Event()  # a client has begun to watch
        self.failures: list[str] = []  # of the command beside the server
        self.before_stop: Callable[[], Awaitable[None]] | None = None
        if plan.play and not plan.paused:
            self.begun.set()

    def add_to(self, add: Callable[..., None]) -> None:
        add("GET", "replay", self._show)
        add("POST", "replay", self._move)

    def state(self) -> dict[str, Any]:
        return {
            "kind": "Replay",
            "apiVersion": "rewound.cluster.io/v1",
            "writable": True,
            "version": str(self.applied.reached),
            "playing": self.begun.is_set() and not self.played.is_set(),
            "start": {"version": str(self.plan.at.version)},
            "end": {"version": str(self.plan.to)},
            "notApplied": len(self.applied.skipped),
        }

    async def finish(self, stop: trio.Event) -> None:
        """End the replay, which has done everything."""
        if self.before_stop is not None:
            await self.before_stop()
        stop.set()

    async def _show(self, context: RequestContext) -> Response:
        return await render.document(context, self.state())

    async def _move(self, context: RequestContext) -> Response:
        body = json_body(context)
        if not self.plan.play or not isinstance(body, dict) or body.get("action") != "play":
            raise BadRequest(
                'a writable replay takes {"action": "play"} alone, if it was started with --play --paused'
            )
        self.begun.set()
        return await render.document(context, self.state())


async def run_writable(
    settings: Settings,
    recording: Recording,
    progress: Progress,
    ready: Ready,
    stop: trio.Event,
    extensions: Extensions = NO_EXTENSIONS,
) -> Comparison:
    """Serve the copy of `make_copy` until `stop` is set; returns how it differs. Raises BadExpression."""
    plan, applied = progress.plan, progress.applied
    program = compile_until(plan.until, recording)
    clock, ending = ForkClock(plan.at.time or recording.time), _Ending()
    if not plan.play:
        clock.start(1.0)
    writers = _writers(settings, plan)
    authorizers = (_WatchNotice(progress.watched), *extensions.authorizers)
    extensions = msgspec.structs.replace(
        extensions, authorizers=authorizers, add_controls=progress.add_to, isolated=True
    )
    async with trio.open_nursery() as nursery:

        def begin(store: Store) -> None:
            if plan.timeout is not None:
                nursery.start_soon(_time_out, progress, ending, stop)
            if not plan.play:
                if plan.settle is not None:
                    nursery.start_soon(_settle, store, progress, ending, stop)
                return
            if program is not None:
                ending.until = Until(
                    program, lambda number: described(store, number), lambda one: before(recording, one)
                )
            writes = RecordedWrites(
                recording, store, clock, writers, applied, to=plan.to, speed=plan.speed, until=ending.until
            )
            nursery.start_soon(_play, writes, store, clock, progress, ending, stop)

        await run(settings, ready, stop, clock, extensions, begin)
        nursery.cancel_scope.cancel()
    return replace(
        _compared(settings, recording, plan, applied, writers), unfinished=tuple(ending.unfinished(progress))
    )


def _writers(settings: Settings, plan: WritablePlan) -> Writers:
    # Imported here, because only a writable replay needs them.
    from rewound.actors.chaos.controller import ChaosController
    from rewound.actors.workloads.built_in import BY_NAME

    enabled = settings.controllers.enabled_controllers(settings.rules)
    accounts: dict[str, Any] = {**BY_NAME, ChaosController.name: ChaosController}
    idle = frozenset(built.account for name, built in accounts.items() if name not in enabled)
    return Writers(plan.without, enabled != frozenset(), idle)


@dataclass(slots=True)
class _Ending:
    """How a replay ended."""

    until: Until | None = None
    timed_out: float | None = None  # after so many seconds
    settled: bool = False

    def unfinished(self, progress: Progress) -> Iterator[str]:
        plan, applied = progress.plan, progress.applied
        yield from progress.failures
        if self.timed_out is not None:
            yield f"it did not end within {self.timed_out:g} s"
        if plan.play and not applied.complete:
            yield f"recorded writes were applied up to version {applied.reached} of {plan.to}"
        elif self.until is not None and not self.until.held:
            yield self.until.never_held()
        if plan.settle is not None and not self.settled:
            yield f"clients were never without a write for {plan.settle:g} s"


async def _play(
    writes: RecordedWrites,
    store: Store,
    clock: ForkClock,
    progress: Progress,
    ending: _Ending,
    stop: trio.Event,
) -> None:
    plan = progress.plan
    await progress.begun.wait()
    clock.start(1.0 if plan.speed == FULL_SPEED else plan.speed)
    await writes.run()
    progress.played.set()
    if plan.settle is not None:
        await _settle(store, progress, ending, stop)
    elif plan.ends:
        await progress.finish(stop)


async def _settle(store: Store, progress: Progress, ending: _Ending, stop: trio.Event) -> None:
    """Stop when no client has written for a while; without recorded writes, wait for the first write."""
    plan, applied = progress.plan, progress.applied
    assert plan.settle is not None
    written = trio.Event()

    def notice(events: Sequence[Event]) -> None:
        if any(event.offset not in applied.offsets and not is_of_server(event) for event in events):
            written.set()

    store.feed.follow(notice)
    if not plan.play:
        await written.wait()
    while True:
        written = trio.Event()
        with trio.move_on_after(plan.settle) as quiet:
            await written.wait()
        if quiet.cancelled_caught:
            break
    store.feed.unfollow(notice)
    ending.settled = True
    await progress.finish(stop)


async def _time_out(progress: Progress, ending: _Ending, stop: trio.Event) -> None:
    assert progress.plan.timeout is not None
    await trio.sleep(progress.plan.timeout)
    if not stop.is_set():
        ending.timed_out = progress.plan.timeout
        await progress.finish(stop)


class _WatchNotice(NotRunningAuthorizer):
    """An authorizer that only notices the first watch of a client."""

    def __init__(self, watched: trio.Event) -> None:
        self._watched = watched

    def authorize(self, attributes: Attributes) -> Decision:
        if attributes.verb == "watch":
            self._watched.set()
        return super().authorize(attributes)


def _compared(
    settings: Settings, recording: Recording, plan: WritablePlan, applied: Applied, writers: Writers
) -> Comparison:
    end = applied.reached if plan.play else plan.to

    def replaced(event: Event) -> bool:
        return writers.leaves_out(event) if plan.play else True

    copy = Journal.open(settings.journal, readonly=True)
    try:
        return compare(recording, copy, plan.at.version, end, applied, replaced, plan.ignored)
    finally:
        copy.close()
