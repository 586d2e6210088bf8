"""`rewound record --audit-webhook-port`: authors are those of the server's own journal, however batches arrive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.journal.records import Event
from rewound.recording.record import late_authors
from rewound.recording.record.audit_sink import SinkOptions
from rewound.recording.record.audit_spool import Spool
from rewound.recording.record.recorder import Recorder
from rewound.recording.record.requests import requests_in
from rewound.recording.record.writer import original_version
from rewound.rewind.page.refused import refused_in
from tests.actors.object_store import memory_folder
from tests.gateway.api import config_map
from tests.gateway.audit.auditing import Audited, audited, rules
from tests.recording.record.audit_senders import client_of, event_list, shuffled_batches
from tests.recording.record.random_writes import USERS, RandomWrites
from tests.recording.record.recording import opened, recording
from tests.settling import settled


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found


def who(event: Event) -> tuple[str, str, str, str]:
    return event.user, event.verb, event.manager, event.name


async def send_all(server: Audited, recorder: Recorder, random: Random) -> int:
    """Send what the server has logged, as two servers that repeat and reorder batches; return how many there were."""
    assert recorder.sink is not None
    events = [orjson.loads(line) for line in server.lines()]
    async with client_of(recorder.sink) as client:
        for batch in shuffled_batches(events, random):
            response = await client.post("/", content=batch, headers={"content-type": "application/json"})
            assert response.status_code == 200
    return len(events)


@pytest.mark.parametrize("level", ["RequestResponse", "Metadata"])
async def test_same_authors_as_the_server(
    folder: Path, autojump_clock: MockClock, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The virtual clock advances while threads work: changes settle when everything was sent.
    monkeypatch.setattr(late_authors, "SHORTEST_PATIENCE", float("inf"))
    for module in ("authors", "late_authors", "audit_spool"):
        monkeypatch.setattr(f"rewound.recording.record.{module}.LATE_SECONDS", float("inf"))
    blocking = {"audit_log_mode": "blocking"}
    async with audited(rules(f"level: {level}"), blocking) as server:
        assert server.api.store is not None
        options = {"with_secrets": True, "sink": SinkOptions(port=0)}
        async with recording(server.api, folder / "out", **options) as (recorder, _):
            writes = RandomWrites(server.api, Random(7), pause=2)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(writes.run, 80)
                await trio.sleep(60)  # the first thirty writes or so
                await send_all(server, recorder, Random(1))
            await settled()
            await trio.sleep(3)
            await send_all(server, recorder, Random(2))  # the first half again
            monkeypatch.setattr(late_authors, "SHORTEST_PATIENCE", 3.0)
            monkeypatch.setattr(late_authors, "LATE_SECONDS", 3.0)
            await trio.sleep(30)
        with server.api.store.journal.read() as view:
            written = {one.offset: one for one in view.all_events(0)}
    assert recorder.sink is not None and recorder.authors is not None
    async with opened(folder / "out") as journal:
        with journal.read() as view:
            versions = {one: int(original_version(view, one.offset) or 0) for one in view.all_events(0)}
    same, different = [], []
    for event, version in versions.items():
        if version in written and written[version].user in USERS:
            (same if who(event) == who(written[version]) else different).append(event)
    assert len(same) > 50
    if level == "RequestResponse":
        assert [(who(one), who(written[versions[one]])) for one in different] == []
    # A log of level Metadata does not have all authors: the recording marks the guesses.
    assert [one for one in different if "guessed" not in one.reason and one.user != "recorded"] == []
    assert recorder.authors.late > 0
    assert recorder.sink.statistics.repeated > 0
    assert len(list(refused_in(folder / "out"))) == writes.refused


async def test_requests_that_a_killed_recorder_had_acknowledged(
    folder: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They name the changes that the next run reads from its journal, and those that it finds."""
    for module in ("authors", "audit_spool"):
        monkeypatch.setattr(f"rewound.recording.record.{module}.LATE_SECONDS", 1e9)
    monkeypatch.setattr(late_authors, "LATE_SECONDS", 2.0)
    options = {"sink": SinkOptions(port=0)}
    async with audited(rules("level: RequestResponse"), {"audit_log_mode": "blocking"}) as server:
        async with recording(server.api, folder / "out", **options):
            for name in ("first", "second"):
                await server.api.create("configmaps", config_map(name))
        # What a kill leaves: events without an author, and in the spool what was acknowledged.
        events = [orjson.loads(line) for line in server.lines()]
        spool = Spool(folder / "out" / "audit-webhook" / "spool", lambda: server.api.clock.now() / 1e6)
        requests = [one.without_content() for one in requests_in(event_list(events, "audit.cluster.io/v1"))]
        spool.append(requests)
        assert [one async for one in users(folder / "out", "first", "second")] == ["recorded", "recorded"]
        async with recording(server.api, folder / "out", **options) as (recorder, _):
            await trio.sleep(5)
            # The sender got no response before the kill: it repeats the batch.
            assert recorder.sink is not None
            async with client_of(recorder.sink) as client:
                response = await client.post("/", content=event_list(events, "audit.cluster.io/v1"))
                assert response.status_code == 200
            assert recorder.sink.statistics.repeated == len(requests)
    named = [one async for one in users(folder / "out", "first", "second")]
    assert named == ["admin", "admin"]
    spool.close()


async def users(folder: Path, *names: str) -> AsyncIterator[str]:
    async with opened(folder) as journal:
        with journal.read() as view:
            for name in names:
                [event] = view.history(journal.type_id("configmaps"), "default", name)
                yield event.user
