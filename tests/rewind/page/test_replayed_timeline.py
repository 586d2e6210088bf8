"""The timeline of a replay ends at the moment that the replay shows, and moves with it."""

from __future__ import annotations

from pathlib import Path

import trio

from rewound.recording.replay.player import Moment
from rewound.recording.replay.replay import Plan
from tests.actors.object_store import Document
from tests.gateway.journal_commands import put, write_history
from tests.recording.replay.replaying import Replay, replayed
from tests.rewind.page.test_timeline import EVENTS, TIMELINE, ask


def record(folder: Path) -> None:
    write_history(folder, [put("a", {"n": str(number)}, user="admin") for number in range(6)])


async def versions(replay: Replay) -> list[int]:
    events = await ask(replay.api, EVENTS, order="ascending")
    found = [int(item["version"]) for item in events["items"]]
    end = max(item["micros"] for item in events["items"]) + 1
    span = {"from": "2020-01-01T00:00:00Z", "to": "2030-01-01T00:00:00Z"}
    rows = (await ask(replay.api, TIMELINE, **span))["rows"]
    assert sum(row["total"] for row in rows) == len(found), end
    (life,) = (await ask(replay.api, f"{TIMELINE}/objects", **span))["items"]
    assert (life["name"], life["changes"], len(life["phases"])) == ("a", len(found), 0)
    return found


async def test_the_timeline_moves_with_the_replay(tmp_path: Path) -> None:
    record(tmp_path)
    async with replayed(tmp_path, Plan(at=Moment(3, 0))) as replay:
        assert (await ask(replay.api, f"{TIMELINE}/types"))["replays"] is True
        assert await versions(replay) == [1, 2, 3]
        await replay.move(action="step", count=2)
        assert await versions(replay) == [1, 2, 3, 4, 5]
        await replay.move(action="back", count=3)
        assert await versions(replay) == [1, 2]
        await replay.move(action="goto", at="6")
        assert await versions(replay) == [1, 2, 3, 4, 5, 6]


async def test_followers_get_what_the_replay_plays(tmp_path: Path) -> None:
    record(tmp_path)
    async with replayed(tmp_path, Plan(at=Moment(3, 0))) as replay:
        pages: list[Document] = []

        async def follow() -> None:
            pages.append(await ask(replay.api, EVENTS, order="ascending", wait=30, **{"from": 4}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await replay.move(action="step")
        assert [item["version"] for item in pages[0]["items"]] == ["4"]
