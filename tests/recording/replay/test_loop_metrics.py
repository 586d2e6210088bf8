"""Servers that only read measure how long tasks hold their event loop, also after going back."""

from __future__ import annotations

import re
import time
from pathlib import Path

import trio

from rewound.gateway.ops.loop_watchdog import STEP
from tests.gateway.api import Api, config_map, served
from tests.recording.flight.flying import flying
from tests.recording.replay.replaying import recorded, replayed


async def holds_after_a_hold(api: Api) -> float:
    """What the metrics count after a task has held the loop."""
    until = time.perf_counter() + 2 * STEP
    while time.perf_counter() < until:
        pass
    await trio.lowlevel.checkpoint()
    body = (await api.ask("GET", "/metrics")).body
    counted = re.findall(rb"^rewound_event_loop_holds_total (\S+)$", body, re.MULTILINE)
    assert len(counted) == 1, body
    return float(counted[0])


async def test_flight_measures_holds(tmp_path: Path, autojump_clock: object) -> None:
    async with served(dialect="kubernetes") as api, flying(api, tmp_path / "out") as flying_api:
        await flying_api.begun()
        assert await holds_after_a_hold(flying_api.api) >= 1


async def test_replay_measures_holds_also_after_going_back(tmp_path: Path) -> None:
    async with recorded(tmp_path / "data") as api:
        for name in ("a", "b"):
            await api.create("configmaps", config_map(name))
    async with replayed(tmp_path / "data") as replay:
        assert await holds_after_a_hold(replay.api) >= 1
        await replay.move(action="back", count=1)
        assert await holds_after_a_hold(replay.api) >= 1
