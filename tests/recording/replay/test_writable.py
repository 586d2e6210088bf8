"""A writable replay lets controllers write to a copy, and reports how their writes differ from the recorded ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import trio

from rewound.recording.replay.comparison import Ignored, report
from rewound.recording.replay.player import FULL_SPEED, Moment
from rewound.recording.replay.writable import WritablePlan
from tests.actors.object_store import Document
from tests.gateway.api import ALICE, Api, config_map, names
from tests.gateway.journal_commands import put as step
from tests.gateway.journal_commands import write_history
from tests.recording.replay.replaying import CONTROL, forked, recorded

BY_MANAGER = {"fieldManager": "scaler"}


async def put(api: Api, name: str, token: str = ALICE, **data: str) -> Document:
    """Create or update a ConfigMap as alice, with a field manager."""
    path = api.path("configmaps", "default", name)
    existing = await api.ask("GET", path)
    content = {**existing.document.get("data", {}), **data} if existing.status == 200 else data
    method, target = ("PUT", path) if existing.status == 200 else ("POST", api.path("configmaps"))
    headers = {"impersonate-user": "robot", "impersonate-group": "system:masters"} if token == ALICE else {}
    response = await api.ask(method, target, config_map(name, **content), headers=headers, **BY_MANAGER)
    assert response.status in (200, 201), response.text
    return response.document


async def version(api: Api) -> int:
    return int(await api.head())


async def record(folder: Path) -> tuple[int, int]:
    """Two writers: admin changes `color`, the robot follows with `shade`. Returns the versions before and after."""
    async with recorded(folder) as api:
        await put(api, "web", token="", color="blue", shade="blue")
        start = await version(api)
        for color in ("red", "green"):
            api.clock.advance(10)
            await put(api, "web", token="", color=color)
            await put(api, "web", shade=color)
        await put(api, "other", token="", color="white")
        end = await version(api)
    return start, end


async def test_copy_begins_at_the_moment_and_the_source_stays(tmp_path: Path) -> None:
    start, end = await record(tmp_path)
    before = (tmp_path / "journal" / "data.mdb").read_bytes()
    async with forked(tmp_path, WritablePlan(Moment(start, 0), end)) as api:
        assert (await api.get("configmaps", "web"))["data"] == {"color": "blue", "shade": "blue"}
        await put(api, "new", color="black")
        assert "new" in names(await api.list("configmaps"))
        assert (await api.get("configmaps", "web", at=start))["data"]["color"] == "blue"
    assert (tmp_path / "journal" / "data.mdb").read_bytes() == before


async def test_report_names_every_object_that_ends_differently(tmp_path: Path) -> None:
    start, end = await record(tmp_path)
    async with forked(tmp_path, WritablePlan(Moment(start, 0), end)) as api:
        await put(api, "web", token="", color="green")
        await put(api, "new", color="black")
    text = report(api.compared)
    assert text[-1].startswith("3 of 3 objects differ from version")
    (web,) = (one for one in api.compared.objects if one.name == "web")
    assert [change.path for change in web.changes] == ["data.shade"]
    assert (len(web.recorded), len(web.here)) == (4, 1)
    joined = "\n".join(text)
    assert (
        "~ configmaps default/web\n    recorded  4 writes by admin with scaler, robot with scaler" in joined
    )
    assert '    ~ data.shade: "green" -> "blue"' in joined
    assert "~ configmaps default/new exists only here" in joined
    assert "~ configmaps default/other exists only in the recording" in joined


async def test_same_end_is_no_difference(tmp_path: Path) -> None:
    start, end = await record(tmp_path)
    async with forked(tmp_path, WritablePlan(Moment(start, 0), end)) as api:
        await put(api, "web", token="", color="green", shade="green")
        await put(api, "other", token="", color="white")
    assert report(api.compared)[-1] == f"no difference from version {start} to {end}: 2 objects compared"
    document = api.compared.document()
    assert document["same"] is True
    (web,) = (one for one in document["objects"] if one["name"] == "web")
    assert (len(web["recorded"]["writes"]), len(web["here"]["writes"])) == (4, 1)


async def follow(api: Api) -> None:
    """The controller under test, once: `shade` follows `color`."""
    data = (await api.get("configmaps", "web"))["data"]
    if data["shade"] != data["color"]:
        await put(api, "web", shade=data["color"])


def playing(start: int, end: int, *without: str) -> WritablePlan:
    return WritablePlan(Moment(start, 0), end, play=True, speed=FULL_SPEED, without=without, paused=True)


async def test_writes_of_other_clients_continue(tmp_path: Path) -> None:
    """The robot's recorded writes are left out, and a controller makes them instead."""
    start, end = await record(tmp_path)
    async with forked(tmp_path, playing(start, end, "rob*")) as api:
        await api.play()
        await follow(api)
    assert api.compared.same, report(api.compared)
    (web,) = api.compared.objects
    assert [(one.user, one.manager) for one in web.here] == [("robot", "scaler")]
    assert (len(web.recorded), api.compared.skipped) == (2, ())


async def test_applied_writes_keep_their_users_and_what_was_written_here(tmp_path: Path) -> None:
    start, end = await record(tmp_path)
    async with forked(tmp_path, playing(start, end, "robot")) as api:
        written = await put(api, "web", note="written here")
        await api.play()
        web = await api.get("configmaps", "web")
        assert web["data"] == {"color": "green", "shade": "blue", "note": "written here"}
        assert web["metadata"]["uid"] == written["metadata"]["uid"]
        assert {one["manager"] for one in web["metadata"]["managedFields"]} == {"scaler"}
        path = "/apis/rewound.cluster.io/v1/namespaces/default/configmaps/web/history"
        items = (await api.ask("GET", path)).expect(200)["items"]
        assert [(one["user"], one.get("reason", "")[:11]) for one in items[:3]] == [
            ("admin", "recorded as"),
            ("admin", "recorded as"),
            ("robot", ""),
        ]
    (one,) = (one for one in api.compared.objects if one.name == "web")
    assert {change.path for change in one.changes} == {"data.note", "data.shade"}


async def test_writes_that_do_not_fit_are_reported(tmp_path: Path) -> None:
    start, end = await record(tmp_path)
    async with forked(tmp_path, playing(start, end)) as api:
        await api.delete("configmaps", "web")
        await put(api, "other", color="mine")
        await api.play()
        state = (await api.ask("GET", CONTROL)).expect(200)
        assert (state["version"], state["playing"], state["notApplied"]) == (str(end), False, 5)
    why = {(one.event.name, one.why) for one in api.compared.skipped}
    assert why == {("web", "the object is gone"), ("other", "the object exists already")}
    assert "was not applied: the object is gone" in "\n".join(report(api.compared))


async def test_recorded_writes_wait_for_their_times(tmp_path: Path, autojump_clock: object) -> None:
    write_history(tmp_path, [step("a", {"n": str(number)}) for number in range(11)])
    plan = WritablePlan(Moment(1, 0), 11, play=True, speed=2.0, ends=True)
    async with forked(tmp_path, plan) as api:
        began = trio.current_time()
        await api.stop.wait()
        assert 3 < trio.current_time() - began < 6
    assert api.compared.same


async def test_only_play_is_accepted(tmp_path: Path) -> None:
    write_history(tmp_path, [step("a")])
    async with forked(tmp_path, WritablePlan(Moment(1, 0), 1)) as api:
        for action in ("play", "step"):
            assert (await api.ask("POST", CONTROL, {"action": action})).status == 400


async def test_ends_when_clients_have_not_written_for_a_while(tmp_path: Path) -> None:
    """The controller reacts to the last recorded write; the replay waits for its write, and then some time for
    another.
    """
    start, end = await record(tmp_path)
    plan = replace(playing(start, end, "robot"), settle=3.0, timeout=60.0)
    async with forked(tmp_path, plan) as api:
        await api.play()
        await follow(api)
        await api.stop.wait()
    assert api.compared.failures == [], report(api.compared)


async def test_end_without_success_says_why(tmp_path: Path) -> None:
    start, end = await record(tmp_path)
    plan = replace(playing(start, end), until="event.user == 'nobody'", settle=60.0, timeout=4.0)
    async with forked(tmp_path, plan) as api:
        await api.play()
        await api.stop.wait()
    assert api.compared.failures == [
        "it did not end within 4 s",
        "the expression held for none of 5 events",
        "clients were never without a write for 60 s",
    ]
    async with forked(tmp_path, playing(start, end)) as api:
        pass  # stopped before it was played
    assert f"recorded writes were applied up to version {start} of {end}" in api.compared.failures


async def test_writes_that_were_not_applied_are_failures(tmp_path: Path) -> None:
    start, end = await record(tmp_path)
    async with forked(tmp_path, playing(start, end)) as api:
        await api.delete("configmaps", "web")
        await api.play()
    assert "4 recorded writes were not applied" in api.compared.failures


async def test_kinds_and_fields_can_be_left_out_of_the_comparison(tmp_path: Path) -> None:
    start, end = await record(tmp_path)

    async def compared(ignored: Ignored) -> list[tuple[str, str]]:
        async with forked(tmp_path, replace(playing(start, end, "robot"), ignored=ignored)) as api:
            await api.play()
            await put(api, "web", note="1")
        return [(one.name, change.path) for one in api.compared.objects for change in one.changes]

    assert await compared(Ignored()) == [("web", "data.shade"), ("web", "data.note")]
    assert await compared(Ignored(["leases"], ["data.sh*"])) == [("web", "data.note")]
    assert await compared(Ignored(["config*"])) == []


def test_ignored_fields_are_paths_with_wildcards() -> None:
    ignored = Ignored(fields=["status.conditions[*].lastTransitionTime", "data.a"])
    for path in ("status.conditions[type=Ready].lastTransitionTime", "data.a", "metadata.managedFields"):
        assert path in ignored
    for path in ("status.conditions[type=Ready].status", "data.ab", "status.conditions"):
        assert path not in ignored
