"""What a recording missed is in its folder and in the API, from its beginning on, with times and kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.recording.record.gaps import EXPIRED, FILE, NEWEST, REFUSED, STOPPED, UNREACHABLE, Gaps, gaps_in
from tests.actors.object_store import WATCH_HISTORY, memory_folder
from tests.gateway.api import served
from tests.recording.flight.flying import flying
from tests.recording.record.test_resuming import put

KINDS = ("configmaps",)


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


async def test_stretch_without_the_recorder(folder: Path, autojump_clock: MockClock) -> None:
    """Its versions were still there, so nothing is missing."""
    async with served() as api:
        async with flying(api, folder, kinds=KINDS) as flight:
            await flight.begun()
            assert not (await flight.document())["gaps"]
        async with flying(api, folder, kinds=KINDS) as flight:
            await flight.begun()
            (gap,) = (await flight.document())["gaps"]
    assert (gap["why"], gap["missing"], "to" in gap) == (STOPPED, False, True)


async def test_expired_versions(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api:
        async with flying(api, folder, kinds=KINDS) as flight:
            await flight.begun()
            await flight.caught_up()
        await put(api, "a", "1")
        api.clock.advance(WATCH_HISTORY * 3)
        await put(api, "a", "2")
        async with flying(api, folder, kinds=KINDS) as flight:
            with trio.fail_after(600):
                while not any(one["why"] == EXPIRED for one in (await flight.document())["gaps"]):
                    await trio.sleep(0.5)
            metrics = (await flight.api.ask("GET", "/metrics")).text
            assert "rewound_flight_gaps 1" in metrics
    (gap,) = (one for one in gaps_in(folder) if one.why == EXPIRED)
    assert gap.missing and gap.kinds == {"configmaps"} and 0 < gap.begin < gap.end


def test_gap_is_in_the_file_while_it_lasts(tmp_path: Path) -> None:
    gaps = Gaps(tmp_path)
    gaps.begin(UNREACHABLE, 5, ["pods"], "refused")
    gaps.begin(UNREACHABLE, 6, ["nodes"])
    gaps.begin(UNREACHABLE, 7, ["nodes"])
    (found,) = gaps_in(tmp_path)
    assert (found.begin, found.end, found.kinds, found.message) == (5, 0, {"pods", "nodes"}, "refused")
    gaps.end(UNREACHABLE, 9, "pods")
    gaps.end(REFUSED, 9)
    again = Gaps(tmp_path)  # as after a kill
    again.end(UNREACHABLE, 12, "nodes")
    again.end(UNREACHABLE, 13, "nodes")
    assert sorted((one.begin, one.end, *one.kinds) for one in gaps_in(tmp_path)) == [
        (5, 9, "pods"),
        (5, 12, "nodes"),
    ]
    assert not again.lasting()


def test_broken_lines_are_skipped(tmp_path: Path) -> None:
    Gaps(tmp_path).add(EXPIRED, 1, 2, "pods", "x" * 10_000, missing=True)
    with (tmp_path / FILE).open("ab") as stream:
        stream.write(b'[]\n{"id": "x"}\n\xff\n{"id": 2, "from": 7, "why"')
    assert [one.begin for one in gaps_in(tmp_path)] == [1]
    assert (tmp_path / FILE).stat().st_size < 1000


def test_file_is_bounded(tmp_path: Path) -> None:
    gaps = Gaps(tmp_path)
    for number in range(1, 5 * NEWEST):
        gaps.add(EXPIRED, number, number + 1, "pods", "", missing=True)
    found = gaps_in(tmp_path)
    assert len(found) <= 3 * NEWEST and found[-1].begin == 5 * NEWEST - 1
