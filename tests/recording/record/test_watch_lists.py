"""Where a server sends what exists at the beginning of a watch, nothing is listed; elsewhere, lists take its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from trio.testing import MockClock

from rewound.client.errors import ClientError
from rewound.client.streaming import StreamingSession
from rewound.recording.record.recorder import Recorder
from tests.actors.object_store import WATCH_HISTORY, memory_folder
from tests.gateway.api import config_map as new_map
from tests.gateway.api import served
from tests.recording.record.recording import events_of, opened, recording
from tests.recording.record.test_first_lists import names_in
from tests.recording.record.test_hostile_servers import config_map, listed, run_recorder

NEWEST = {"/version": {"gitVersion": "v1.36.0"}}
REFUSED = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "sendInitialEvents: Forbidden"}
KINDS = ("configmaps",)
Query = dict[str, str]


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


@pytest.mark.parametrize("websocket", [False, True], ids=["chunks", "websocket"])
async def test_watch_begins_with_what_exists(
    folder: Path, autojump_clock: MockClock, websocket: bool
) -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        for name in ("same", "deleted"):
            await api.create("configmaps", new_map(name))
        async with recording(api, folder, kinds=KINDS, websocket=websocket) as (_, session):
            await api.create("configmaps", new_map("seen"))
        assert [how for _, how in session.sent if how in ("list", "watch")] == ["watch"]
        await api.delete("configmaps", "deleted")
        await api.create("configmaps", new_map("new"))
        api.clock.advance(2 * WATCH_HISTORY)
        await api.create("secrets", {"metadata": {"name": "a"}})  # moves the floor of the watch history
        async with recording(api, folder, kinds=KINDS, websocket=websocket) as (recorder, session):
            await api.create("configmaps", new_map("last"))
        # The first has expired, the second sends what exists.
        assert [how for _, how in session.sent if how in ("list", "watch")] == ["watch", "watch"]
        assert recorder.writer.renumbered == 0
        async with opened(folder) as journal:
            events = [one for one in events_of(journal, "configmaps") if one.namespace == "default"]
        assert sorted((one.name, one.verb) for one in events if one.name != "kube-root-ca.crt") == [
            ("deleted", "create"),
            ("deleted", "delete"),
            ("last", "create"),
            ("new", "create"),
            ("same", "create"),
            ("seen", "create"),
        ]
        versions = {
            one["metadata"]["name"]: one["metadata"] for one in (await api.list("configmaps"))["items"]
        }
        for one in events:
            if not one.removed and one.name != "deleted":
                assert str(one.offset) == versions[one.name]["resourceVersion"]


async def begun(folder: Path, *initial: Any, then: bytes = b"") -> tuple[Recorder, list[Query]]:
    """Record a server whose lists have `b`, and whose watches from the start respond with `initial`."""
    asked: list[Query] = []

    async def watch(query: Query) -> Any:
        asked.append(query)
        if "sendInitialEvents" not in query:
            return [then]
        return REFUSED if initial == (REFUSED,) else [orjson.dumps(one) + b"\n" for one in initial]

    documents = {**NEWEST, **listed(config_map(name="b")), "watch": watch}
    return await run_recorder(documents, folder), asked


def added(name: str, version: str = "5") -> dict[str, Any]:
    return {"type": "ADDED", "object": config_map(name=name, uid=name, resourceVersion=version)}


def bookmark(version: str, **annotations: str) -> dict[str, Any]:
    return {
        "type": "BOOKMARK",
        "object": {"metadata": {"resourceVersion": version, "annotations": annotations}},
    }


async def test_refused_kind_is_listed(folder: Path, autojump_clock: MockClock) -> None:
    _, asked = await begun(folder, REFUSED)
    assert await names_in(folder) == ["b"]
    assert asked[0]["resourceVersionMatch"] == "NotOlderThan" and "resourceVersion" not in asked[0]
    assert len(asked) > 1  # asked once only
    assert all("sendInitialEvents" not in one and one["resourceVersion"] == "7" for one in asked[1:])


async def test_watch_without_the_bookmark_counts_as_refused(folder: Path, autojump_clock: MockClock) -> None:
    """Such as of a server that ignores the parameter. What the list lacks is deleted."""
    await begun(folder, added("a"), bookmark("6"), added("b", "6"))
    assert await names_in(folder) == ["b"]


def error(code: int) -> dict[str, Any]:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "no progress requests"}}


@pytest.mark.parametrize("initial", [(), (added("a"),)], ids=["at once", "later"])
@pytest.mark.parametrize("code", [500, 504, 410, 422])
async def test_error_instead_of_the_bookmark_is_followed_by_a_list(
    initial: tuple[Any, ...], code: int, folder: Path, autojump_clock: MockClock
) -> None:
    """As of Kubernetes 1.36 on an etcd without progress requests. client-go lists after any error, too."""
    recorder, asked = await begun(folder, *initial, error(code))
    assert recorder.started.is_set() and await names_in(folder) == ["b"]
    assert len([one for one in asked if "sendInitialEvents" in one]) == 1


async def test_connections_lost_before_the_bookmark_are_followed_by_a_list(
    folder: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first may be chance."""
    asked: list[Query] = []

    async def read_lines(session: StreamingSession, *given: Any, **query: str) -> None:
        asked.append(query)
        if "sendInitialEvents" in query:
            raise ClientError("the connection was lost")

    monkeypatch.setattr(StreamingSession, "read_lines", read_lines)
    await run_recorder({**NEWEST, **listed(config_map(name="b"))}, folder)
    assert ["sendInitialEvents" in one for one in asked[:3]] == [True, True, False]
    assert await names_in(folder) == ["b"]


async def test_version_that_the_server_refuses_is_followed_by_a_list(
    folder: Path, autojump_clock: MockClock
) -> None:
    """It would be refused for ever."""
    listed_at: list[str] = []

    async def listing(query: Query) -> Any:
        listed_at.append("list")
        return {"metadata": {"resourceVersion": str(6 + len(listed_at))}, "items": []}

    async def watch(query: Query) -> Any:
        return [orjson.dumps(error(500)) + b"\n"] if query["resourceVersion"] == "7" else []

    documents = {"/version": {"gitVersion": "v1.25.16"}, "/api/v1/configmaps": listing, "watch": watch}
    await run_recorder(documents, folder, seconds=100)
    assert len(listed_at) == 2


async def test_changes_before_the_bookmark_count(folder: Path, autojump_clock: MockClock) -> None:
    removed = {**added("a", "8"), "type": "DELETED"}
    end = bookmark("9", **{"k8s.io/initial-events-end": "true"})
    recorder, asked = await begun(folder, added("a"), added("c", "6"), removed, end, added("d", "10"))
    assert await names_in(folder) == ["c", "d"]
    assert recorder.writer.renumbered == 0
    assert asked[1]["resourceVersion"] == "10"


async def test_old_servers_are_not_asked(folder: Path, autojump_clock: MockClock) -> None:
    asked: list[Query] = []

    async def watch(query: Query) -> Any:
        asked.append(query)
        return []

    await run_recorder({"/version": {"gitVersion": "v1.25.16"}, "watch": watch}, folder)
    assert asked and not any("sendInitialEvents" in one for one in asked)
