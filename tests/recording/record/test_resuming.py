"""A recording continues after its own restarts, cut connections and expired versions, and misses nothing available."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trio
from trio.testing import MockClock

from rewound.client.errors import ClientError
from rewound.recording.record.recorder import PATIENCE, Recorder, RecordOptions, load_positions
from tests.actors.object_store import WATCH_HISTORY, Document, memory_folder
from tests.gateway.api import Api, config_map, served
from tests.recording.record.recording import events_of, opened, recording, session_to, texts
from tests.testing.faults.injecting import injecting, on_config_maps

KINDS = ("configmaps",)
over_both = pytest.mark.parametrize("websocket", [False, True], ids=["chunks", "websocket"])


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


async def put(api: Api, name: str, text: str) -> str:
    """Create or replace a ConfigMap; returns its version."""
    body = config_map(name, text=text)
    response = await api.ask("PUT", api.path("configmaps", name=name), body)
    written = response.document if response.status == 200 else await api.create("configmaps", body)
    return str(written["metadata"]["resourceVersion"])


@over_both
async def test_recording_continues_after_a_restart(
    folder: Path, autojump_clock: MockClock, websocket: bool
) -> None:
    async with served() as api:
        await put(api, "a", "0")
        async with recording(api, folder, kinds=KINDS, websocket=websocket):
            await put(api, "a", "1")
        await put(api, "a", "2")
        await put(api, "b", "3")
        await api.delete("configmaps", "b")
        began = trio.current_time()
        async with recording(api, folder, kinds=KINDS, websocket=websocket) as (_, session):
            assert trio.current_time() - began < PATIENCE  # it waits for no list
            await put(api, "a", "4")
        assert [how for _, how in session.sent if how != "get"] == ["watch"]  # from where it ended
        async with opened(folder) as journal:
            own = [one for one in events_of(journal, "configmaps") if one.namespace == "default"]
        assert texts(own) == [
            ("create", "0"),
            ("update", "1"),
            ("update", "2"),
            ("create", "3"),
            ("delete", "3"),
            ("update", "4"),
        ]


async def test_events_since_the_first_lists_are_kept(folder: Path, autojump_clock: MockClock) -> None:
    """Also those that arrive before anything is written."""
    async with served() as api:
        await put(api, "a", "0")

        async def write_when_listed() -> None:
            with trio.fail_after(60):
                while not recorder.is_listed("configmaps"):
                    await trio.sleep(0.05)
            await put(api, "a", "1")
            await put(api, "a", "2")

        session = session_to(api)
        api.client.timeout = httpx.Timeout(None)
        recorder = Recorder(session, folder, RecordOptions(KINDS), api.clock.now)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.run)
            nursery.start_soon(write_when_listed)
            await recorder.started.wait()
            await trio.sleep(3)
            nursery.cancel_scope.cancel()
        await session.aclose()
        async with opened(folder) as journal:
            own = [one for one in events_of(journal, "configmaps") if one.namespace == "default"]
        assert texts(own) == [("create", "0"), ("update", "1"), ("update", "2")]


async def test_positions_may_be_behind_the_journal(folder: Path, autojump_clock: MockClock) -> None:
    """As after a crash: events that arrive a second time are skipped."""
    async with served() as api:
        async with recording(api, folder, kinds=KINDS):
            pass
        before = (folder / "recording.json").read_bytes()
        async with recording(api, folder, kinds=KINDS):
            await put(api, "a", "1")
            await put(api, "a", "2")
        (folder / "recording.json").write_bytes(before)
        async with recording(api, folder, kinds=KINDS) as (recorder, _):
            pass
        assert recorder.writer.events == 0
        assert recorder.writer.renumbered == 0


@over_both
async def test_differences_are_recorded_when_the_version_has_expired(
    folder: Path, autojump_clock: MockClock, websocket: bool
) -> None:
    async with served() as api:
        for name in ("same", "changed", "deleted", "replaced"):
            await put(api, name, "0")
        async with recording(api, folder, kinds=KINDS, websocket=websocket):
            pass
        await put(api, "changed", "1")
        changed = await put(api, "changed", "2")
        await api.delete("configmaps", "deleted")
        await api.delete("configmaps", "replaced")
        await put(api, "replaced", "3")
        await put(api, "new", "4")
        api.clock.advance(2 * WATCH_HISTORY)
        await api.create("secrets", {"metadata": {"name": "a"}})  # moves the floor of the watch history
        async with recording(api, folder, kinds=KINDS, websocket=websocket) as (recorder, session):
            last = await put(api, "new", "5")
        assert [how for _, how in session.sent if how != "get"] == ["watch", "list", "watch"]
        positions = load_positions(folder)
        assert positions is not None and recorder.writer.renumbered == 0
        async with opened(folder) as journal:
            events = events_of(journal, "configmaps", since=positions.exact_from)
            with journal.read() as view:
                found = [row.body for _, _, row in view.rows(journal.type_id("configmaps"), "default")]
        assert sorted((one.name, *text) for one, text in zip(events, texts(events), strict=True)) == [
            ("changed", "update", "2"),
            ("deleted", "delete", "0"),
            ("new", "create", "4"),
            ("new", "update", "5"),
            ("replaced", "create", "3"),
            ("replaced", "delete", "0"),
        ]
        versions = {one.name: one.offset for one in events if not one.removed}
        assert (versions["changed"], versions["new"]) == (int(changed), int(last))
        reasons = {one.reason.partition(" by ")[0].partition(" before ")[0] for one in events if one.removed}
        assert reasons == {"found to be deleted"}
        listed = (await api.list("configmaps"))["items"]
        assert len(found) == len(listed)
        assert [one["metadata"]["name"] for one in listed] == ["changed", "new", "replaced", "same"]


FAULTS: list[Document] = [
    {"cutWatch": {"afterEvents": 1, "upToEvents": 4}},
    {"cutWatch": {"afterEvents": 1, "upToEvents": 4, "end": "reset"}},
    {"cutWatch": {"afterEvents": 0, "upToEvents": 3, "end": "truncated"}},
    {"expired": {}},
    {"error": {"code": 503}},
    {"repeatEvents": {"events": 3}},
    {"loseReply": {}},
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: "-".join(map(str, next(iter(fault.items())))))
@over_both
async def test_nothing_is_lost_by_faults(
    folder: Path, autojump_clock: MockClock, fault: Document, websocket: bool
) -> None:
    rule = on_config_maps(fault, first=4)
    rule["match"]["userAgent"] = "rewound/*"
    async with injecting(rule, {**rule, "name": "again", "after": 5, "first": 3}) as api:
        async with recording(api, folder, kinds=KINDS, websocket=websocket) as (recorder, _):
            for number in range(20):
                await put(api, f"n{number % 3}", str(number))
                await trio.sleep(0.2)
            await api.delete("configmaps", "n1")
            await trio.sleep(60)  # of the virtual clock: pauses between attempts
        expected = {one["metadata"]["name"]: one for one in (await api.list("configmaps"))["items"]}
        async with opened(folder) as journal:
            events = [one for one in events_of(journal, "configmaps") if one.namespace == "default"]
            with journal.read() as view:
                rows = list(view.rows(journal.type_id("configmaps"), "default"))
        assert {name: str(row.offset) for _, name, row in rows} == {
            name: one["metadata"]["resourceVersion"] for name, one in expected.items()
        }
        assert recorder.writer.renumbered == 0
        if "expired" not in fault:
            assert len(events) == 21  # every change, once


async def test_kind_that_cannot_be_listed_does_not_stop_the_others(
    folder: Path, autojump_clock: MockClock
) -> None:
    rule = {"match": {"resources": ["secrets"], "verbs": ["list"]}, "fault": {"error": {"code": 503}}}
    async with injecting({**rule, "first": 10}) as api:
        async with recording(api, folder, kinds=("cm", "secrets")) as (recorder, _):
            assert recorder.progress().listed == 1
            await put(api, "a", "1")
            await trio.sleep(600)  # of the virtual clock: the server has recovered
            await api.create("secrets", {"metadata": {"name": "late"}})
        assert {("default", "a")} <= recorder.writer.names_of("configmaps")
        assert ("default", "late") in recorder.writer.names_of("secrets")


async def test_folder_of_something_else_is_refused(folder: Path, autojump_clock: MockClock) -> None:
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    async with served() as api:
        with pytest.raises(BaseExceptionGroup) as caught:
            async with recording(api, folder):
                pass  # pragma: no cover
        assert caught.group_contains(ClientError, match="is not empty and has no recording")


async def test_recording_of_another_cluster_is_refused(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api, recording(api, folder, kinds=KINDS):
        pass
    saved = (folder / "recording.json").read_text()
    positions = load_positions(folder)
    assert positions is not None
    (folder / "recording.json").write_text(saved.replace(positions.cluster, "11111111"))
    async with served() as api:
        with pytest.raises(BaseExceptionGroup) as caught:
            async with recording(api, folder, kinds=KINDS):
                pass  # pragma: no cover
        assert caught.group_contains(ClientError, match="has a recording of another cluster")


async def test_unknown_kind_is_refused(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api:
        with pytest.raises(BaseExceptionGroup) as caught:
            async with recording(api, folder, kinds=("gadgets",)):
                pass  # pragma: no cover
        assert caught.group_contains(ClientError, match="'gadgets' is not a kind of this server")
        assert not folder.exists()
        await session_to(api).aclose()
