"""A flight recorder's folder is bounded by age and by bytes; the state, and all versions that are left, stay exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import orjson
import pytest
from trio.testing import MockClock

from rewound.actors.selectors.facts import pack_facts
from rewound.cli.main import main
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.recording.flight.flight import FlightOptions
from rewound.recording.flight.retention import SHARE, Bounds, Retention
from rewound.recording.flight.status import used_bytes
from rewound.recording.record.recorder import RecordOptions
from tests.actors.object_store import ManualClock, memory_folder
from tests.gateway.api import served
from tests.recording.flight.flying import flying
from tests.recording.record.test_resuming import put


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


class Direct:
    """Performs the work of a committer at once."""

    async def perform(self, work):  # type: ignore[no-untyped-def]
        return work()


async def test_oldest_events_go_when_space_is_short(folder: Path, autojump_clock: MockClock) -> None:
    journal = Journal.open(folder / "journal")
    try:
        retention = Retention(journal, Direct(), ManualClock(), Bounds(max_disk=2 << 20))  # type: ignore[arg-type]
        number = journal.register_type("configmaps")
        largest = 0
        for offset in range(1, 4001):
            journal.append([event(number, offset)])
            if offset % 250 == 0:
                await retention.shrink()
                largest = max(largest, journal.environment.statistics()["used_bytes"])
        assert used_bytes(journal) <= SHARE * (2 << 20)
        assert largest <= 2 << 20  # freed pages were used again
        assert not retention.problem
        with journal.read() as view:
            assert 0 < view.floor < 4000
            assert sorted(row.offset for _, _, row in view.rows(number)) == list(range(3991, 4001))
            before = view.at(view.floor + 20)
            found = sorted(row.offset for _, _, row in before.rows(number))
            assert found == list(range(view.floor + 11, view.floor + 21))
    finally:
        journal.close()
    assert main(["verify", "--data-dir", str(folder)]) == 0


async def test_limit_that_cannot_be_kept_is_reported(folder: Path, autojump_clock: MockClock) -> None:
    journal = Journal.open(folder / "journal")
    try:
        number = journal.register_type("configmaps")
        journal.append([event(number, offset) for offset in range(1, 100)])
        retention = Retention(journal, Direct(), ManualClock(), Bounds(max_disk=1000))  # type: ignore[arg-type]
        await retention.shrink()
        assert "the present objects alone need" in retention.problem
        with journal.read() as view:
            assert view.get(number, "default", "m9") is not None
    finally:
        journal.close()


async def test_events_go_when_they_are_old(folder: Path, autojump_clock: MockClock) -> None:
    options = FlightOptions(RecordOptions(kinds=("configmaps",)), Bounds(age=3600.0))
    async with served() as api, flying(api, folder, options=options) as flight:
        await flight.begun()
        first = await put(api, "a", "0")
        await put(api, "a", "1")
        await flight.caught_up()
        api.clock.advance(2 * 3600.0)
        await put(api, "a", "2")
        await put(api, "a", "3")
        await flight.caught_up()
        for _ in range(20):
            await flight.caught_up()
        path = flight.api.path("configmaps", name="a")
        assert (await flight.api.ask("GET", path)).expect(200)["data"] == {"text": "3"}
        assert (await flight.api.ask("GET", f"{path}?at={first}")).status == 410


def event(number: int, offset: int) -> Event:
    name = f"m{offset % 10}"
    body = orjson.dumps(
        {
            "metadata": {"name": name, "namespace": "default", "resourceVersion": str(offset)},
            "data": {"x": Random(offset).randbytes(700).hex()},  # compresses to half
        }
    )
    facts = pack_facts({}, {"metadata.name": name, "metadata.namespace": "default"}, f"u{name}", [])
    return Event(
        offset=offset,
        type_id=number,
        verb="update" if offset > 10 else "create",
        namespace="default",
        name=name,
        previous=max(offset - 10, 0),
        removed=False,
        time=offset * 1_000_000,
        user="recorded",
        manager="m",
        facts=facts,
        body=body,
        reason="",
    )
