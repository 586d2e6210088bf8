"""HTTP requests make a replay play, pause, step and stop at a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rewound.actors.runtime import turns
from rewound.recording.replay import player
from rewound.recording.replay.player import FULL_SPEED, Moment
from rewound.recording.replay.replay import Plan
from rewound.recording.replay.until import BadExpression
from tests.gateway.api import served
from tests.gateway.journal_commands import put, write_history
from tests.recording.replay.replaying import CONTROL, replayed


def record(folder: Path) -> int:
    """A ConfigMap with the numbers 0 to 9, a second apart; returns the version before."""
    write_history(
        folder, [put("before"), *(put("a", {"n": str(number)}, user="admin") for number in range(10))]
    )
    return 1


@pytest.mark.parametrize(
    ("expression", "after"),
    [
        ("object.data.n == '4'", 5),
        ("event.verb == 'update' && event.kind == 'ConfigMap'", 2),
        ("old != null && old.data.n == '2'", 4),
        (
            "event.user == 'admin' && event.name == 'a' && event.namespace == 'default' && event.version > 0",
            1,
        ),
        ("int(object.data.n) > 6", 8),
        ("object.kind == 'ConfigMap' && object.apiVersion == 'v1'", 1),
        ("object.data.missing == ''", 10),
        ("event.user == 'bob'", 10),
    ],
)
async def test_replay_plays_until_the_expression_is_true(tmp_path: Path, expression: str, after: int) -> None:
    start = record(tmp_path)
    plan = Plan(at=Moment(start, 0), speed=FULL_SPEED, until=expression, play=True)
    async with replayed(tmp_path, plan) as replay:
        state = await replay.stopped()
        assert int(state["version"]) == start + after
        if after < 10:
            assert state["stopped"] == f"the expression holds at version {start + after}"
        else:
            assert state["stopped"].startswith("the end: the expression held for none of 10 events")
            assert ("could not be evaluated: no such key: missing" in state["stopped"]) == (
                "missing" in expression
            )


async def test_expression_is_evaluated_in_turns_and_can_be_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ShortTurn:
        def over(self) -> bool:
            return True

    monkeypatch.setattr("rewound.recording.replay.player.Turn", ShortTurn)
    start = record(tmp_path)
    plan = Plan(at=Moment(start, 0), speed=FULL_SPEED, until="event.user == 'nobody'")
    async with replayed(tmp_path, plan) as replay:
        player = replay.api.player
        assert player is not None
        player.play()
        for _ in range(4):  # it has started with the ten events, and not finished
            await trio.lowlevel.checkpoint()
        assert player.playing and player.state().now.version == start
        player.pause()
        await trio.testing.wait_all_tasks_blocked()
        assert player.state().now.version == start
        player.play()
        assert int((await replay.stopped())["version"]) == start + 10


@pytest.mark.parametrize("expression", ["object.", "unknown == 1", "'text'", "1 + 'a' == 2"])
async def test_bad_expressions_are_refused(tmp_path: Path, expression: str) -> None:
    record(tmp_path)
    with pytest.raises((BadExpression, BaseExceptionGroup)) as refused:
        async with replayed(tmp_path, Plan(until=expression)):
            pass
    assert refused.group_contains(BadExpression) if refused.type is not BadExpression else True


async def test_plays_to_a_version_and_pauses(tmp_path: Path, autojump_clock: object) -> None:
    start = record(tmp_path)
    plan = Plan(at=Moment(start, 0), to=start + 8, speed=0.5, play=True)
    async with replayed(tmp_path, plan) as replay:
        await trio.sleep(5)
        state = await replay.move(action="pause")
        assert (state["playing"], state["stopped"], int(state["version"])) == (False, "paused", start + 2)
        await trio.sleep(60)
        assert (await replay.state())["version"] == state["version"]
        assert (await replay.move(action="play", speed="max"))["speed"] == "max"
        assert int((await replay.stopped())["version"]) == start + 8


class LoopTurns(trio.abc.Instrument):
    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_going_back_far_takes_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts the events in between, a few at a time."""
    write_history(tmp_path, [put("a", {"n": str(number)}) for number in range(120)])
    async with replayed(tmp_path) as replay:
        for step_keys, steps in ((1000, 0), (1, 100), (7, 14)):
            monkeypatch.setattr(player, "STEP_KEYS", step_keys)
            await replay.move(action="goto", at="120")
            turns_of_loop = LoopTurns()
            with monkeypatch.context() as patch:
                patch.setattr(turns, "TURN", -1.0)
                trio.lowlevel.add_instrument(turns_of_loop)
                assert replay.api.player is not None
                assert await replay.api.player._offset_before(100) == 20
                trio.lowlevel.remove_instrument(turns_of_loop)
            assert turns_of_loop.count >= steps
            assert (await replay.move(action="back", count=100))["version"] == "20"
            assert (await replay.move(action="back", count=1000))["version"] == "0"


async def test_goes_to_times_in_both_directions(tmp_path: Path) -> None:
    start = record(tmp_path)
    async with replayed(tmp_path) as replay:
        end = (await replay.state())["end"]["time"]
        await replay.move(action="goto", at=str(start + 3))
        state = await replay.state()
        moved = await replay.move(action="goto", at=state["time"])
        assert moved["version"] == state["version"]
        assert (await replay.move(action="goto", at=end))["version"] == str(start + 10)
        between = state["time"].replace("Z", "")[:-3] + "500Z"
        moved = await replay.move(action="goto", at=between)
        assert (moved["version"], moved["time"]) == (state["version"], between)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"action": "fly"},
        {"action": "step", "count": 0},
        {"action": "step", "count": "x"},
        {"action": "step", "count": True},
        {"action": "goto"},
        {"action": "goto", "at": "yesterday"},
        {"action": "goto", "at": "999999"},
        {"action": "play", "speed": "-1x"},
        {"action": "play", "speed": "nan"},
        [],
    ],
)
async def test_nonsense_is_refused(tmp_path: Path, wanted: Any) -> None:
    record(tmp_path)
    async with replayed(tmp_path) as replay:
        before = await replay.state()
        body = str(wanted).replace("'", '"').replace("True", "true").encode()
        response = await replay.api.ask("POST", CONTROL, body)
        assert response.expect(400)["reason"] == "BadRequest"
        assert await replay.state() == before


async def test_an_ordinary_server_has_no_replay(tmp_path: Path) -> None:
    async with served() as api:
        assert (await api.ask("GET", CONTROL)).status == 404
