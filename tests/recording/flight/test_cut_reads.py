"""What a recorder says of versions that it dropped because they took too much room: that they are missing, never what
is not true.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.cli.flight_status import lines_of
from rewound.journal.cuts import cut, scope_of
from rewound.recording.flight.flight import FlightOptions
from rewound.recording.record.recorder import RecordOptions
from tests.actors.object_store import memory_folder
from tests.gateway.api import served
from tests.recording.flight.flying import flying
from tests.recording.record.test_resuming import put

LARGE = "/apis/rewound.cluster.io/v1" + "/namespaces/default/configmaps/large"


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


async def test_reads_before_a_cut_say_what_was_dropped(folder: Path, autojump_clock: MockClock) -> None:
    options = FlightOptions(RecordOptions(kinds=("configmaps",)))
    async with served() as api, flying(api, folder, options=options) as flight:
        await flight.begun()
        await put(api, "other", "1")
        versions = [await put(api, "large", str(number)) for number in range(5)]
        newest = await put(api, "large", "last")
        await flight.caught_up()
        journal = flight.flight.journal
        sum(cut(journal, scope_of(journal.type_id("configmaps"), "default", "large"), int(versions[3])))

        path = flight.api.path("configmaps", name="large")
        for version in versions[:3]:
            refused = await flight.api.ask("GET", path, at=version)
            assert refused.status == 410
            message = refused.document["message"]
            assert 'configmaps "large" before' in message and "to keep --max-disk" in message
        for version in versions[3:]:
            assert (await flight.api.ask("GET", path, at=version)).expect(200)["metadata"][
                "resourceVersion"
            ] == version
        other = await flight.api.ask("GET", flight.api.path("configmaps", name="other"), at=versions[0])
        assert other.expect(200)["data"] == {"text": "1"}

        listed = await flight.api.ask("GET", flight.api.path("configmaps"), at=versions[0])
        assert "large" not in [one["metadata"]["name"] for one in listed.expect(200)["items"]]
        (warning,) = listed.headers.get_list("warning")
        assert "older versions of configmaps in default were dropped before" in warning

        history = (await flight.api.ask("GET", f"{LARGE}/history")).expect(200)["items"]
        assert [one["version"] for one in history] == [newest, versions[4], versions[3]]
        assert history[-1]["compacted"] is True and "older versions were dropped" in history[-1]["reason"]
        blamed = (await flight.api.ask("GET", f"{LARGE}/blame")).expect(200)
        assert any(one.get("compacted") for one in blamed["fields"])


async def test_status_and_metrics_say_who_takes_the_room(folder: Path, autojump_clock: MockClock) -> None:
    options = FlightOptions(RecordOptions(kinds=("configmaps",)))
    async with served() as api, flying(api, folder, options=options) as flight:
        await flight.begun()
        for number in range(20):
            await put(api, "large", str(number))
        await flight.caught_up()
        retention = flight.flight._retention
        assert retention is not None
        await retention.scan()
        document = await flight.document()
        first = document["disk"]["shares"][0]
        assert first["namespace"] == "default" and first["events"] >= 19
        assert first["objects"][0]["name"] == "large"
        assert dict(lines_of(document))["room"].startswith("default ")
        metrics = (await flight.api.ask("GET", "/metrics")).text
        assert f'rewound_flight_share_bytes{{kind="",namespace="default"}} {first["bytes"]}' in metrics
