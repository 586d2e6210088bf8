"""--forget: of some kinds all that is old goes, but for what exists; what is left is exact, or says that it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.cli.flight import flight
from rewound.recording.flight.flight import FlightOptions
from rewound.recording.flight.retention import Bounds
from rewound.recording.record.recorder import RecordOptions
from tests.actors.object_store import memory_folder
from tests.gateway.api import served
from tests.recording.flight.flying import flying
from tests.recording.record.test_resuming import put

SHORT = 300.0


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


async def test_deleted_objects_go_and_present_ones_stay(folder: Path, autojump_clock: MockClock) -> None:
    options = FlightOptions(
        RecordOptions(kinds=("configmaps", "serviceaccounts")), Bounds(forget={"configmaps": SHORT})
    )
    async with served() as api, flying(api, folder, options=options) as flight:
        await flight.begun()
        await put(api, "gone", "1")
        kept = await put(api, "kept", "1")
        await flight.caught_up()
        account = await api.create("serviceaccounts", {"metadata": {"name": "robot"}})
        await flight.caught_up()
        old = (await flight.document())["version"]
        await api.ask("DELETE", api.path("configmaps", name="gone"))
        await api.ask("DELETE", api.path("serviceaccounts", name="robot"))
        await flight.caught_up()
        api.clock.advance(SHORT + 30)
        await put(api, "new", "1")
        await flight.caught_up()
        await trio.sleep(90)

        listed = await flight.api.ask("GET", flight.api.path("configmaps"), at=old)
        names = {one["metadata"]["name"] for one in listed.expect(200)["items"]}
        assert "kept" in names and "gone" not in names
        (warning,) = listed.headers.get_list("warning")
        assert "older versions of configmaps were dropped before" in warning
        histories = "/apis/rewound.cluster.io/v1/namespaces/default/configmaps"
        for name, status in (("kept", 200), ("gone", 404)):
            (await flight.api.ask("GET", f"{histories}/{name}/history")).expect(status)
        found = (await flight.api.ask("GET", flight.api.path("configmaps", name="kept"))).expect(200)
        assert found["metadata"]["resourceVersion"] == kept

        others = await flight.api.ask("GET", flight.api.path("serviceaccounts", name="robot"), at=old)
        assert others.expect(200)["metadata"]["uid"] == account["metadata"]["uid"]
        watch = {"watch": "1", "resourceVersion": old, "timeoutSeconds": "1"}
        watched = await flight.api.ask("GET", flight.api.path("configmaps"), **watch)
        assert watched.status == 410 or '"code":410' in watched.text  # it would miss the removal
        assert (await flight.document())["retention"]["forget"] == {"configmaps": SHORT}


def test_flag_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given, why in (
        ("1d", "names no kind; write it like events=1d"),
        ("events=1s", "events: the time is too short"),
        ("events", "names no kind"),
        ("events=x", "--forget"),
    ):
        assert flight(["--forget", given, str(tmp_path / "out")]) == 2
        assert why in capsys.readouterr().err
