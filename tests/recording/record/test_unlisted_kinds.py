"""A recording begins when every kind is listed, or without those that cannot be; never when none could be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.recording.flight.flight import FlightOptions
from rewound.recording.record.gaps import UNLISTED, UNREACHABLE, gaps_in
from rewound.recording.record.recorder import RecordOptions
from tests.gateway.api import Api, served
from tests.recording.flight.flying import flying
from tests.recording.record.recording import CountingSession
from tests.recording.record.test_hostile_servers import MAPS, config_map, listed, run_recorder

BROKEN = {
    "kind": "Status",
    "code": 500,
    "reason": "InternalError",
    "message": "etcd has no progress requests",
}
ENDS = [b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd has no progress requests"}}\n']
NEWEST = {"/version": {"gitVersion": "v1.36.4"}}
TWO = {"/api/v1": {"resources": [MAPS, {**MAPS, "name": "pods", "kind": "Pod"}]}}


@pytest.mark.parametrize("version", ["v1.25.16", "v1.36.4"])
async def test_nothing_listed_is_not_a_recording(
    version: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """However long it waits; it says why."""
    documents = {"/version": {"gitVersion": version}, "/api/v1/configmaps": BROKEN, "watch": ENDS}
    recorder = await run_recorder(documents, tmp_path / "out", seconds=300)
    assert not recorder.started.is_set() and recorder.progress().listed == 0
    assert "etcd has no progress requests" in recorder.problem
    assert "nothing can be listed, so nothing is recorded yet: etcd has no progress requests" in caplog.text
    assert UNREACHABLE not in {one.why for one in gaps_in(tmp_path / "out")}


async def test_kind_that_cannot_be_listed_does_not_stop_the_others(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Although the others have something to say all the time. It is named, with the reason, until it is listed."""
    version = 7

    async def watch(query: dict[str, str]) -> Any:
        nonlocal version
        await trio.sleep(1)
        version += 1
        metadata = config_map(name=f"n{version}", uid=f"u{version}", resourceVersion=str(version))
        return [b'{"type":"ADDED","object":%b}\n' % orjson.dumps(metadata)]

    documents = {**TWO, **listed(config_map()), "/api/v1/pods": BROKEN, "watch": watch}
    recorder = await run_recorder(documents, tmp_path / "out", seconds=200)
    assert recorder.started.is_set() and not recorder.problem
    assert recorder.unlisted() == {"pods": "etcd has no progress requests"}
    assert {"kinds": ["pods"], "why": "etcd has no progress requests"} in recorder.left_out()
    (gap,) = (one for one in recorder.gaps.lasting() if one.why == UNLISTED)
    assert gap.kinds == {"pods"}


class Broken(CountingSession):
    """A session to a server that cannot list, and whose watches end with an error."""

    broken = True

    async def get_bytes(self, path: str, **query: str) -> bytes:
        if "limit" in query and self.broken:
            from rewound.client.errors import StatusError

            raise StatusError(500, "InternalError", "etcd is sick")
        return await super().get_bytes(path, **query)

    async def read_lines(self, path: str, seconds: float, take: Any, *more: Any, **query: str) -> None:
        if self.broken:
            await take(ENDS[0])
        await super().read_lines(path, seconds, take, *more, **query)


async def readiness(api: Api) -> tuple[int, str]:
    response = await api.ask("GET", "/readyz?verbose", token=None)
    return response.status, response.text


async def test_flight_says_that_it_records_nothing_and_why(tmp_path: Path, autojump_clock: MockClock) -> None:
    from tests.recording.record.recording import session_to

    options = FlightOptions(RecordOptions(kinds=("configmaps", "leases")))
    async with served() as api:
        session = Broken(session_to(api).target)
        async with flying(api, tmp_path / "out", session=session, options=options) as flight:
            await trio.sleep(200)
            document = await flight.document()
            assert not document["recording"] and not document["listed"]
            assert document["problem"] == "etcd is sick"
            status, text = await readiness(flight.api)
            assert status == 500 and "first-lists" in text
            session.broken = False
            await flight.begun()
            await trio.sleep(5)
            document = await flight.document()
            assert document["recording"] and document["listed"] and not document["problem"]
            assert document["listedKinds"] == document["kinds"] == 2
            assert (await readiness(flight.api))[0] == 200
