"""A flight recorder serves what it records while it records: lists, watches, old versions, history, blame, the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from tests.actors.object_store import memory_folder
from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import watching
from tests.recording.flight.flying import flying
from tests.recording.record.test_resuming import put

KINDS = ("configmaps", "namespaces")
CRON = {"apiVersion": "example.com/v1", "kind": "Cron"}
HISTORY = "/apis/rewound.cluster.io/v1/namespaces/default/configmaps/a/history"


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


async def test_lists_and_objects_are_those_of_the_cluster(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api, flying(api, folder, kinds=KINDS) as flight:
        await flight.begun()
        await put(api, "a", "1")
        await put(api, "b", "2")
        await api.delete("configmaps", "b")
        await put(api, "a", "3")
        await flight.caught_up()
        path = "/api/v1/configmaps"
        ours, theirs = await flight.api.ask("GET", path), await api.ask("GET", path)
        assert ours.expect(200)["items"] == theirs.expect(200)["items"]


async def test_watches_get_what_is_recorded(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api, flying(api, folder, kinds=KINDS) as flight:
        await flight.begun()
        await flight.caught_up()
        listed = (await flight.api.ask("GET", flight.api.path("configmaps"))).expect(200)
        version = listed["metadata"]["resourceVersion"]
        async with watching(flight.api, flight.api.path("configmaps"), resourceVersion=version) as watch:
            written = await put(api, "a", "1")
            await flight.caught_up()
            (event,) = await watch.take(1)
            assert event["type"] == "ADDED"
            assert event["object"]["metadata"]["resourceVersion"] == written


async def test_the_past_is_served(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api, flying(api, folder, kinds=KINDS) as flight:
        await flight.begun()
        first = await put(api, "a", "1")
        await put(api, "a", "2")
        await flight.caught_up()
        path = flight.api.path("configmaps", name="a")
        assert (await flight.api.ask("GET", f"{path}?at={first}")).expect(200)["data"] == {"text": "1"}
        history = (await flight.api.ask("GET", HISTORY)).expect(200)
        assert [one["verb"] for one in history["items"]] == ["update", "create"]
        blame = await flight.api.ask("GET", HISTORY.replace("history", "blame"))
        assert blame.status == 200
        events = await flight.api.ask("GET", "/apis/rewound.cluster.io/v1/timeline/events")
        assert {one["name"] for one in events.expect(200)["items"]} >= {"a"}
        assert (await flight.api.ask("GET", "/debug/journal/")).status == 200


async def test_kinds_that_are_defined_while_it_records_are_served(
    folder: Path, autojump_clock: MockClock
) -> None:
    async with served() as api, flying(api, folder) as flight:
        await flight.begun()
        definition = {
            "metadata": {"name": "crons.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "crons", "kind": "Cron"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "x-preserve-unknown-fields": True,
                            }
                        },
                    }
                ],
            },
        }
        made = await api.ask(
            "POST", "/apis/apiextensions.cluster.io/v1/customresourcedefinitions", definition
        )
        assert made.status == 201, made.text
        await flight.caught_up()
        path = "/apis/example.com/v1/namespaces/default/crons"
        assert (await api.ask("POST", path, {**CRON, "metadata": {"name": "c"}})).status == 201
        await flight.caught_up()
        assert [
            one["metadata"]["name"] for one in (await flight.api.ask("GET", path)).expect(200)["items"]
        ] == ["c"]


async def test_nothing_is_written_through_it(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api, flying(api, folder, kinds=KINDS) as flight:
        await flight.begun()
        refused = await flight.api.ask("POST", flight.api.path("configmaps"), config_map("x"))
        assert refused.status == 403
        assert "shows the recording of a cluster" in refused.document["message"]
        document = await flight.document()
        assert document["recording"] and document["listed"] and not document["problem"]
