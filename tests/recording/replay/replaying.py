"""Replays the journals of servers that ran in the same test.

async with recorded() as api:
    ...                                    # an ordinary server; its journal stays
async with replayed(api.folder, Plan(at=Moment(7, 0))) as replay:
    await replay.api.list("configmaps")
    await replay.move(action="step")
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from rewound.gateway.settings.settings import Addresses
from rewound.journal.recording import Recording
from rewound.recording.replay.comparison import Comparison
from rewound.recording.replay.control import ReplayControl
from rewound.recording.replay.player import Player
from rewound.recording.replay.replay import Plan, replay_settings, run_replay
from rewound.recording.replay.source import open_source
from rewound.recording.replay.writable import Progress, WritablePlan, fork_settings, make_copy, run_writable
from tests.actors.object_store import Document, ManualClock, memory_folder
from tests.gateway.api import ADMIN, TOKENS, AnyPort, Api, served
from tests.gateway.watch.watching import connect, request, with_query

CONTROL = "/debug/rewound/replay"


@dataclass
class ReplayApi(Api):
    recording: Recording | None = None
    plan: Plan = field(default_factory=Plan)
    player: Player | None = None
    control: ReplayControl | None = None

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        def ready(addresses: Addresses, control: ReplayControl, player: Player) -> None:
            self.addresses, self.control, self.player = addresses, control, player
            task_status.started()

        assert self.recording is not None
        await run_replay(self.settings, self.recording, self.plan, ready, self.stop, self.extensions)
        self.stopped.set()


@dataclass(frozen=True)
class Replay:
    api: ReplayApi
    recording: Recording

    async def state(self) -> Document:
        return (await self.api.ask("GET", CONTROL)).expect(200)

    async def move(self, **wanted: Any) -> Document:
        return (await self.api.ask("POST", CONTROL, wanted)).expect(200)

    async def stopped(self) -> Document:
        """Wait until it has stopped playing."""
        assert self.api.player is not None
        await self.api.player.wait_stopped()
        return await self.state()


@asynccontextmanager
async def recorded(folder: Path) -> AsyncIterator[Api]:
    """Run a server; when it has stopped, copy its data to the folder."""
    async with served() as api:
        yield api
        await api.finish()
        shutil.copytree(api.settings.data_dir, folder, dirs_exist_ok=True)


@asynccontextmanager
async def replayed(source: Path, plan: Plan = Plan()) -> AsyncIterator[Replay]:  # noqa: B008
    with memory_folder() as scratch, open_source(source, scratch) as recording:
        tokens = scratch / "tokens.csv"
        tokens.write_text(TOKENS)
        settings = replay_settings(
            recording,
            scratch / "data",
            AnyPort,
            secure_port=0,
            insecure_port=1,
            token_auth_file=tokens,
        )
        async with trio.open_nursery() as nursery:
            api = ReplayApi(settings, ManualClock(), nursery, recording=recording, plan=plan)
            await api.start(prepared=True)
            try:
                yield Replay(api, recording)
            finally:
                with trio.move_on_after(10, shield=True):
                    await api.finish()


@dataclass
class ForkApi(Api):
    """A server on a copy; `comparison` is set when it has stopped."""

    recording: Recording | None = None
    progress: Progress | None = None
    comparison: Comparison | None = None

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        def ready(addresses: Addresses) -> None:
            self.addresses = addresses
            task_status.started()

        assert self.recording is not None and self.progress is not None
        self.comparison = await run_writable(
            self.settings, self.recording, self.progress, ready, self.stop, self.extensions
        )
        self.stopped.set()

    async def play(self) -> None:
        """Apply all recorded writes of other writers."""
        assert self.progress is not None
        (await self.ask("POST", CONTROL, {"action": "play"})).expect(200)
        await self.progress.played.wait()

    @property
    def compared(self) -> Comparison:
        assert self.comparison is not None
        return self.comparison


@asynccontextmanager
async def forked(source: Path, plan: WritablePlan) -> AsyncIterator[ForkApi]:
    with memory_folder() as scratch, open_source(source, scratch) as recording:
        tokens = scratch / "tokens.csv"
        tokens.write_text(TOKENS)
        data_dir = scratch / "copy"
        given = {"secure_port": 0, "insecure_port": 1, "token_auth_file": tokens}
        settings = fork_settings(recording, data_dir, AnyPort, **given)
        make_copy(recording, plan, data_dir)
        async with trio.open_nursery() as nursery:
            api = ForkApi(settings, ManualClock(), nursery, recording=recording, progress=Progress(plan))
            await api.start(prepared=True)
            try:
                yield api
            finally:
                with trio.move_on_after(10, shield=True):
                    await api.finish()


async def lines(api: Api, path: str, count: int, **query: Any) -> list[bytes]:
    """The first events of a watch, byte for byte as HTTP/1.1 sends them: every chunk is one event."""
    stream = await connect(api)
    try:
        await stream.send_all(request(with_query(path, watch=1, **query), ADMIN, {}))
        received = b""
        while b"\r\n\r\n" not in received or received.count(b"\n\r\n") < count + 1:
            part = bytes(await stream.receive_some(65536))
            assert part, received
            received += part
    finally:
        await trio.aclose_forcefully(stream)
    head, _, chunks = received.partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0], head
    *events, rest = chunks.split(b"\n\r\n")
    assert (len(events), rest) == (count, b""), (path, len(events), rest)
    return events


__all__ = ["CONTROL", "ForkApi", "Replay", "ReplayApi", "forked", "lines", "recorded", "replayed"]
